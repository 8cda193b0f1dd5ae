"""The requests that a cluster's brokers receive, for tests of what a member sends."""

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
class ReceivedRequest:
    """A request that a broker has received, answered or refused. `at` is the cluster's time, in seconds."""

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


def watch(monkeypatch: pytest.MonkeyPatch) -> list[ReceivedRequest]:
    """Return a list to which every request that a broker receives from now on is appended, without lost requests."""
    received: list[ReceivedRequest] = []

    def dispatch(call: Call, refusal: ErrorCode | None = None) -> None:
        client_id, is_refused = call.request.client_id, refusal is not None
        received.append(ReceivedRequest(call.request.api, call.body, call.now, client_id, is_refused))
        apis.dispatch(call, refusal)

    monkeypatch.setattr(server, "dispatch", dispatch)
    return received


def of(received: list[ReceivedRequest], api: Api) -> list[ReceivedRequest]:
    """Return the requests of one API."""
    return [request for request in received if request.api is api]
