"""The requests that a cluster's brokers get, for tests of what a member sends."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from sarameya.embedded import apis
from sarameya.embedded.apis import Call
from sarameya.embedded.network import server
from sarameya.error_codes import ErrorCode
from sarameya.protocol.versions import Api

OF_GROUPS = frozenset(
    {
        Api.FIND_COORDINATOR,
        Api.JOIN_GROUP,
        Api.SYNC_GROUP,
        Api.HEARTBEAT,
        Api.LEAVE_GROUP,
        Api.OFFSET_COMMIT,
        Api.OFFSET_FETCH,
    }
)


@attrs.frozen(slots=True)
class Asked:
    """A request that a broker has received, whatever its response. `at` is the cluster's time, in seconds."""

    api: Api
    body: Any
    at: float
    client_id: str
    refused: bool

    @property
    def member_id(self) -> str:
        """Member id in the request; empty if there is none."""
        if self.api is Api.LEAVE_GROUP:
            return str(self.body.members[0].member_id)
        return str(getattr(self.body, "member_id", None) or "")


def watch(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """Everything that any broker is asked from now on, in order; requests that are lost on their way are not in it."""
    asked: list[Asked] = []

    def dispatch(call: Call, refusal: ErrorCode | None = None) -> None:
        asked.append(Asked(call.request.api, call.body, call.now, call.request.client_id, refusal is not None))
        apis.dispatch(call, refusal)

    monkeypatch.setattr(server, "dispatch", dispatch)
    return asked


def of(asked: list[Asked], api: Api) -> list[Asked]:
    """The requests of one API."""
    return [request for request in asked if request.api is api]
