"""What the membership has sent and not been answered, and whose answer it awaits: of `membership.py`. Pure.

One request at a time is out to the coordinator, and none while it is being looked for; the leader's dealing goes on
beside. Each is known by its token, and only the answer with the token that is awaited is one: any other is late.
"""

from __future__ import annotations

import attrs

from sarameya.protocol.membership_messages import FindCoordinator, ForgetCoordinator
from sarameya.protocol.reactions import Request


@attrs.frozen(slots=True)
class InFlight:
    """A request to the coordinator."""

    request: Request
    token: int
    sent_at: float


class MembershipExchanges:
    """The exchanges of one membership."""

    def __init__(self) -> None:
        self.coordinator: int | None = None
        """The node that coordinates the group, as far as is known."""
        self.in_flight: InFlight | None = None
        """What it has been asked."""
        self.find_at = 0.0
        """When it may be looked for, where it is not known."""
        self._finding: int | None = None
        self._assigning: int | None = None
        self._token = 0

    @property
    def awaited(self) -> frozenset[int]:
        """The tokens of all that is to be answered."""
        flight = self.in_flight.token if self.in_flight is not None else None
        return frozenset(token for token in (flight, self._finding, self._assigning) if token is not None)

    @property
    def is_finding(self) -> bool:
        """Whether the coordinator is being looked for."""
        return self._finding is not None

    @property
    def is_assigning(self) -> bool:
        """Whether the partitions are being dealt, by us."""
        return self._assigning is not None

    # -- going out -----------------------------------------------------------------------------------

    def find(self) -> FindCoordinator:
        """Look for the coordinator."""
        self._finding = self._next_token()
        return FindCoordinator(self._finding)

    def send(self, request: Request, now: float) -> int:
        """A request goes out to the coordinator; its token."""
        self.in_flight = InFlight(request, self._next_token(), now)
        return self.in_flight.token

    def assign(self) -> int:
        """The partitions are being dealt; the token of that."""
        self._assigning = self._next_token()
        return self._assigning

    # -- coming in -----------------------------------------------------------------------------------

    def found(self, token: int, node_id: int | None) -> bool:
        """The search is over, with a coordinator or without. False: nobody waits for that any more."""
        if token != self._finding:
            return False
        self._finding = None
        if node_id is not None:
            self.coordinator = node_id
        return True

    def answered(self, token: int) -> InFlight | None:
        """What the answer with `token` answers; None if nobody waits for it any more."""
        flight = self.in_flight
        if flight is None or flight.token != token:
            return None
        self.in_flight = None
        return flight

    def assigned(self, token: int) -> bool:
        """The dealing is over. False: nobody waits for it any more."""
        if token != self._assigning:
            return False
        self._assigning = None
        return True

    # -- given up ------------------------------------------------------------------------------------

    def forget_coordinator(self, cause: str) -> ForgetCoordinator | None:
        """It is to be looked for; what it was asked is answered to nobody. None where none was known."""
        forgotten, self.coordinator, self.in_flight = self.coordinator, None, None
        return ForgetCoordinator(forgotten, cause) if forgotten is not None else None

    def drop_request(self) -> None:
        """What the coordinator was asked is answered to nobody."""
        self.in_flight = None

    def drop_assigning(self) -> None:
        """What is being dealt is for nobody."""
        self._assigning = None

    def drop_all(self) -> None:
        """Whatever is awaited is not any more."""
        self.in_flight = self._finding = self._assigning = None

    def _next_token(self) -> int:
        self._token += 1
        return self._token
