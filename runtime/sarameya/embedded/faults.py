"""Requests that are to go wrong on purpose. Pure; asked once for every request.

A fault is armed for the next so many requests of an API, from anybody or from some. What it does to a request is one
of three actions; `apis` carries out the first, `server`, which has the connection, the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import attrs

from sarameya.embedded.network.framing import ReceivedRequest
from sarameya.error_codes import ErrorCode
from sarameya.protocol.versions import Api

Half = Literal["request", "answer"]
"""Which half of an exchange a fault strikes: before the broker has done what is asked, or after."""


@attrs.frozen(slots=True)
class ErrorResponse:
    """Answer with an error code, and do nothing of what is asked."""

    code: ErrorCode


@attrs.frozen(slots=True)
class Delay:
    """Let one half come `seconds` late. What stands behind it on its connection is late too."""

    seconds: float
    half: Half = "answer"


@attrs.frozen(slots=True)
class Drop:
    """Lose one half. `hang_up`: the connection ends with it; else it stays open, and never says a word again."""

    half: Half = "answer"
    hang_up: bool = True


Action = ErrorResponse | Delay | Drop


@attrs.frozen(slots=True, kw_only=True)
class Fault:
    """What becomes of the next requests of `api`: of the next `remaining` ones, or of all (None).

    The other fields narrow it down; None means any.
    """

    api: Api
    action: Action
    remaining: int | None = 1
    broker_id: int | None = None
    client_id: str | None = None
    group_id: str | None = None

    def strikes(self, node_id: int, request: ReceivedRequest) -> bool:
        """Whether this request, at this broker, is one that the fault is meant for."""
        return (
            request.api is self.api
            and self.broker_id in (None, node_id)
            and self.client_id in (None, request.client_id)
            and (self.group_id is None or self.group_id in groups_named(request.body))
        )


class Faults:
    """What is armed. Of several faults that would strike a request, the one armed first does."""

    def __init__(self) -> None:
        self._armed: list[Fault] = []

    @property
    def armed(self) -> tuple[Fault, ...]:
        """What has not been used up."""
        return tuple(self._armed)

    def arm(self, fault: Fault) -> None:
        """Raises ValueError for a number of requests that cannot be."""
        if fault.remaining is not None and fault.remaining < 1:
            raise ValueError(f"a fault strikes one request at least, not {fault.remaining}")
        self._armed.append(fault)

    def clear(self) -> None:
        """Nothing is armed any more."""
        self._armed.clear()

    def take(self, node_id: int, request: ReceivedRequest) -> Action | None:
        """What becomes of this request to this broker; None: it is served like any other."""
        for place, fault in enumerate(self._armed):
            if fault.strikes(node_id, request):
                if fault.remaining == 1:
                    del self._armed[place]
                elif fault.remaining is not None:
                    self._armed[place] = attrs.evolve(fault, remaining=fault.remaining - 1)
                return fault.action
        return None


def groups_named(body: Any) -> set[str]:
    """The groups that a request is about, whatever its API calls them."""
    return set(_groups_named(body))


def _groups_named(body: Any) -> Iterator[str]:
    for name in ("group_id", "key"):
        group = getattr(body, name, None)
        if isinstance(group, str):
            yield group
    for name in ("groups", "groups_names", "coordinator_keys"):
        for group in getattr(body, name, None) or ():
            yield group if isinstance(group, str) else group.group_id
