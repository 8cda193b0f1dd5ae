"""Pending requests of a membership, and their tokens: part of `machine.py`. Pure.

At most one request to the coordinator is pending, and none while the coordinator is being searched for. The leader's
assignor may run at the same time. Each request, search and run of the assignor has a token. A response with another
token is late, and ignored.
"""

from __future__ import annotations

import attrs

from sarameya.protocol.membership.messages import FindCoordinator, ForgetCoordinator
from sarameya.protocol.membership.states import Request


@attrs.frozen(slots=True)
class PendingRequest:
    """A pending request to the coordinator."""

    request: Request
    token: int
    sent_at: float


class MembershipExchanges:
    """Pending request, search and assignor run of one membership."""

    def __init__(self) -> None:
        self.coordinator: int | None = None
        """Node id of the group's coordinator, if it is known."""
        self.in_flight: PendingRequest | None = None
        """The pending request to the coordinator."""
        self.find_at = 0.0
        """Time from which the coordinator may be searched for, if it is not known."""
        self._finding: int | None = None
        self._assigning: int | None = None
        self._token = 0

    @property
    def awaited(self) -> frozenset[int]:
        """Tokens of everything that is pending."""
        flight = self.in_flight.token if self.in_flight is not None else None
        return frozenset(token for token in (flight, self._finding, self._assigning) if token is not None)

    @property
    def is_finding(self) -> bool:
        """True while the coordinator is being searched for."""
        return self._finding is not None

    @property
    def is_assigning(self) -> bool:
        """True while this member's assignor runs."""
        return self._assigning is not None

    # -- starting ------------------------------------------------------------------------------------

    def find(self) -> FindCoordinator:
        """Start the search for the coordinator."""
        self._finding = self._next_token()
        return FindCoordinator(self._finding)

    def send(self, request: Request, now: float) -> int:
        """Record that a request is sent to the coordinator, and return its token."""
        self.in_flight = PendingRequest(request, self._next_token(), now)
        return self.in_flight.token

    def assign(self) -> int:
        """Record that the assignor starts, and return its token."""
        self._assigning = self._next_token()
        return self._assigning

    # -- finishing -----------------------------------------------------------------------------------

    def found(self, token: int, node_id: int | None) -> bool:
        """Finish the search, with a coordinator or without. Return False if the token is not the expected one."""
        if token != self._finding:
            return False
        self._finding = None
        if node_id is not None:
            self.coordinator = node_id
        return True

    def answered(self, token: int) -> PendingRequest | None:
        """Finish the pending request and return it. Return None if the token is not the expected one."""
        flight = self.in_flight
        if flight is None or flight.token != token:
            return None
        self.in_flight = None
        return flight

    def assigned(self, token: int) -> bool:
        """Finish the assignor's run. Return False if the token is not the expected one."""
        if token != self._assigning:
            return False
        self._assigning = None
        return True

    # -- dropping ------------------------------------------------------------------------------------

    def forget_coordinator(self, cause: str) -> ForgetCoordinator | None:
        """Forget the coordinator and the pending request. Return None if no coordinator was known."""
        forgotten, self.coordinator, self.in_flight = self.coordinator, None, None
        return ForgetCoordinator(forgotten, cause) if forgotten is not None else None

    def drop_request(self) -> None:
        """Ignore the response to the pending request."""
        self.in_flight = None

    def drop_assigning(self) -> None:
        """Ignore the result of the assignor."""
        self._assigning = None

    def drop_all(self) -> None:
        """Ignore the results of everything that is pending."""
        self.in_flight = self._finding = self._assigning = None

    def _next_token(self) -> int:
        self._token += 1
        return self._token
