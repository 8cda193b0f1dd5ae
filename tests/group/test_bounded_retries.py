"""Retries, and their number: unlimited, unless the options set a limit. Virtual time."""

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
from tests.group.traffic import ReceivedRequest, of, watch

TRIED = [
    (Api.FIND_COORDINATOR, "find_coordinator of group g"),
    (Api.JOIN_GROUP, "join of group g"),
    (Api.SYNC_GROUP, "sync of group g"),
    (Api.HEARTBEAT, "heartbeat of group g"),
    (Api.OFFSET_FETCH, "offset fetch of group g"),
    (Api.OFFSET_COMMIT, "commit of group g"),
]
each_api = pytest.mark.parametrize(("api", "what"), TRIED, ids=[api.name for api, _ in TRIED])


class Commits(Recorder):
    """Commits each message, and waits for it."""

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for message in claim:
            session.mark_message(message)
            await session.commit()
            self.messages.append(message)
            self._note(None)


async def fail_for_good(
    nursery: trio.Nursery, cluster: EmbeddedCluster, asked: list[ReceivedRequest], api: Api, **options: Any
) -> Running:
    """A member that meets no other answer of `api` than a refusal that may pass, from a commit of its own on."""
    if api is not Api.OFFSET_COMMIT:
        cluster.fail_next(api, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None)
    member = await start_member(nursery, cluster, Commits(), autocommit=False, **options)
    if api is Api.OFFSET_COMMIT:
        await eventually(lambda: committed(cluster) == {"orders-0": 0})  # where it starts
        asked.clear()
        cluster.fail_next(api, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None)
    fill(cluster, 1)
    await member.ended.wait()
    return member


def exhausted(member: Running, api: Api) -> RetriesExhaustedError:
    """Return the error of `consume()`, out of the wrapping that belongs to its origin."""
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
    asked = watch(monkeypatch)
    async with orders() as cluster, deadline() as nursery:
        member = await fail_for_good(nursery, cluster, asked, api, retry_max_attempts=3)
        error = exhausted(member, api)
        assert (error.what, error.attempts) == (what, 4)
        assert "COORDINATOR_LOAD_IN_PROGRESS" in error.cause
        assert len(of(asked, api)) == 4, "once, and three times again"
        assert [e.attempt for e in member.seen(Retrying) if e.what == what] == [1, 2, 3]


@each_api
async def test_consume_raises_when_the_time_for_retries_is_over(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, api: Api, what: str
) -> None:
    asked = watch(monkeypatch)
    async with orders() as cluster, deadline() as nursery:
        member = await fail_for_good(nursery, cluster, asked, api, retry_timeout=5.0)
        error = exhausted(member, api)
        assert error.what == what
        assert 5.0 <= error.elapsed <= 7.0, "a backoff more at most"
        tries = [request.at for request in of(asked, api)]
        assert tries[-1] - tries[0] == pytest.approx(error.elapsed)


@each_api
async def test_without_bounds_what_fails_for_long_succeeds_at_last(
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
