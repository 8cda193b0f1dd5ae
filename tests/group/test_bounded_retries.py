"""Retries are unlimited, unless the options limit their number or duration. Virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, ErrorCode, RetriesExhaustedError, Session
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import CommitFailed, Retrying
from sarameya.protocol.versions import Api
from tests.group.kit import (
    Recorder,
    Running,
    claim_failure,
    committed,
    deadline,
    eventually,
    failure,
    fill,
    orders,
    start_member,
)
from tests.group.received_requests import ReceivedRequest, of, watch

RETRIED_APIS = [
    (Api.FIND_COORDINATOR, "find_coordinator of group g"),
    (Api.JOIN_GROUP, "join of group g"),
    (Api.SYNC_GROUP, "sync of group g"),
    (Api.HEARTBEAT, "heartbeat of group g"),
    (Api.OFFSET_FETCH, "offset fetch of group g"),
    (Api.OFFSET_COMMIT, "commit of group g"),
]
each_api = pytest.mark.parametrize(("api", "what"), RETRIED_APIS, ids=[api.name for api, _ in RETRIED_APIS])


class Commits(Recorder):
    """A handler that commits each message and waits for the response."""

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for message in claim:
            session.mark_message(message)
            await session.commit()
            self.messages.append(message)
            self._note(None)


async def fail_for_good(
    nursery: trio.Nursery, cluster: EmbeddedCluster, received: list[ReceivedRequest], api: Api, **options: Any
) -> Running:
    """Return a member that has ended, since each `api` request failed with a retriable error.

    Commits fail only after the commit of the start offset.
    """
    if api is not Api.OFFSET_COMMIT:
        cluster.fail_next(api, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None)
    member = await start_member(nursery, cluster, Commits(), autocommit=False, **options)
    if api is Api.OFFSET_COMMIT:
        await eventually(lambda: committed(cluster) == {"orders-0": 0})  # the start offset
        received.clear()
        cluster.fail_next(api, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None)
    fill(cluster, 1)
    await member.ended.wait()
    return member


def exhausted(member: Running, api: Api) -> RetriesExhaustedError:
    """Return the error of `consume()`, without the `ExceptionGroup` or `ClaimError` around it."""
    error: Any = member.error
    if api is Api.OFFSET_COMMIT:
        error = claim_failure(member)
    elif api is Api.OFFSET_FETCH:
        error = failure(member)
    assert isinstance(error, RetriesExhaustedError)
    return error


@each_api
async def test_consume_raises_when_retries_are_exhausted(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, api: Api, what: str
) -> None:
    received = watch(monkeypatch)
    async with orders() as cluster, deadline() as nursery:
        member = await fail_for_good(nursery, cluster, received, api, retry_max_attempts=3)
        error = exhausted(member, api)
        assert (error.what, error.attempts) == (what, 4)
        assert "COORDINATOR_LOAD_IN_PROGRESS" in error.cause
        assert len(of(received, api)) == 4, "one attempt and three retries"
        assert [e.attempt for e in member.seen(Retrying) if e.what == what] == [1, 2, 3]


@each_api
async def test_consume_raises_when_retry_timeout_is_over(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, api: Api, what: str
) -> None:
    received = watch(monkeypatch)
    async with orders() as cluster, deadline() as nursery:
        member = await fail_for_good(nursery, cluster, received, api, retry_timeout=5.0)
        error = exhausted(member, api)
        assert error.what == what
        assert 5.0 <= error.elapsed <= 7.0, "at most one backoff longer"
        times = [request.at for request in of(received, api)]
        assert times[-1] - times[0] == pytest.approx(error.elapsed)


@each_api
async def test_request_without_limits_is_retried_until_it_succeeds(
    autojump_clock: MockClock, api: Api, what: str
) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 1)
        cluster.fail_next(api, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 50)
        handler = Commits()
        member = await start_member(nursery, cluster, handler, autocommit=False, session_timeout=200.0)
        await eventually(lambda: cluster.faults == () and committed(cluster) == {"orders-0": 1})
        assert member.error is None
        assert [e.attempt for e in member.seen(Retrying) if e.what == what] == list(range(1, 51))


async def test_autocommit_without_retries_left_is_reported_and_repeated(
    autojump_clock: MockClock,
) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, retry_max_attempts=2)
        await eventually(lambda: committed(cluster) == {"orders-0": 0})
        cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 3)
        fill(cluster, 2)
        await eventually(lambda: cluster.faults == ())
        await trio.sleep(0.01)
        (failed,) = member.seen(CommitFailed)
        assert failed.cause.startswith("commit of group g: failed after 3 attempts")
        await eventually(lambda: committed(cluster) == {"orders-0": 2})
        assert member.error is None
        assert len(handler.sessions) == 1
