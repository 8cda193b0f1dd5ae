"""Faults: requests that must fail on purpose. Pure; `Faults.take` is called once for each request.

A fault is armed for a number of requests of an API, from all clients or some. It has one of three actions. `apis`
applies an `ErrorResponse`; `network.server`, which owns the connection, applies a `Delay` or a `Drop`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import attrs

from sarameya.embedded.network.framing import ReceivedRequest
from sarameya.error_codes import ErrorCode
from sarameya.protocol.versions import Api

Half = Literal["request", "answer"]
"""The half of an exchange that a fault affects: before ("request") or after ("answer") the broker processes it."""


@attrs.frozen(slots=True)
class ErrorResponse:
    """Respond with an error code, without processing the request."""

    code: ErrorCode


@attrs.frozen(slots=True)
class Delay:
    """Delay one half by `seconds`. Later requests on the same connection wait."""

    seconds: float
    half: Half = "answer"


@attrs.frozen(slots=True)
class Drop:
    """Drop one half. The connection closes, or with `hang_up=False` stays open without any further response."""

    half: Half = "answer"
    hang_up: bool = True


Action = ErrorResponse | Delay | Drop


@attrs.frozen(slots=True, kw_only=True)
class Fault:
    """An action for the next `remaining` requests of `api`, or for all of them (None).

    The other fields restrict the requests; None matches any.
    """

    api: Api
    action: Action
    remaining: int | None = 1
    broker_id: int | None = None
    client_id: str | None = None
    group_id: str | None = None

    def strikes(self, node_id: int, request: ReceivedRequest) -> bool:
        """Return True if the fault applies to this request at this broker."""
        return (
            request.api is self.api
            and self.broker_id in (None, node_id)
            and self.client_id in (None, request.client_id)
            and (self.group_id is None or self.group_id in _group_ids(request.body))
        )


class Faults:
    """Armed faults. If several match a request, the one armed first is applied."""

    def __init__(self) -> None:
        self._armed: list[Fault] = []

    @property
    def armed(self) -> tuple[Fault, ...]:
        """Faults that still have requests left."""
        return tuple(self._armed)

    def arm(self, fault: Fault) -> None:
        """Arm a fault.

        Raises:
            ValueError: The number of requests is less than one.
        """
        if fault.remaining is not None and fault.remaining < 1:
            raise ValueError(f"a fault must apply to at least one request, not {fault.remaining}")
        self._armed.append(fault)

    def clear(self) -> None:
        """Disarm all faults."""
        self._armed.clear()

    def take(self, node_id: int, request: ReceivedRequest) -> Action | None:
        """Return the action for this request at this broker, and count the request; None if no fault matches."""
        for index, fault in enumerate(self._armed):
            if fault.strikes(node_id, request):
                if fault.remaining == 1:
                    del self._armed[index]
                elif fault.remaining is not None:
                    self._armed[index] = attrs.evolve(fault, remaining=fault.remaining - 1)
                return fault.action
        return None


def _group_ids(body: Any) -> Iterator[str]:
    """Yield the group ids in a request. The field names differ between APIs."""
    for name in ("group_id", "key"):
        group = getattr(body, name, None)
        if isinstance(group, str):
            yield group
    for name in ("groups", "groups_names", "coordinator_keys"):
        for group in getattr(body, name, None) or ():
            yield group if isinstance(group, str) else group.group_id
