"""A coordinator that moves, refuses requests and forgets members. Over the in-memory cluster under virtual time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Claim,
    CommitError,
    ErrorCode,
    RetriesExhaustedError,
    Session,
)
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.observe import (
    Retrying,
    SessionEnding,
)
from sarameya.protocol.versions import Api
from tests.group.kit import Recorder, committed, deadline, eventually, fill, orders, start_member


async def test_coordinator_that_moves_does_not_end_the_session(autojump_clock: MockClock) -> None:
    async with orders(2, brokers=3) as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        for broker in (0, 1, 2, 0):
            cluster.move_coordinator("g", broker)
            await trio.sleep(10)
            fill(cluster, 2)
        await handler.received(8)
        await trio.sleep(5)
        assert len(handler.sessions) == 1
        assert committed(cluster)["orders-0"] == 8
        assert member.error is None


async def test_coordinator_not_available_at_first_is_retried(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        cluster.fail_next(Api.FIND_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, 5)
        fill(cluster, 1)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(1)
        assert [e.attempt for e in member.seen(Retrying) if e.what.startswith("find_coordinator")] == [1, 2, 3, 4, 5]


async def test_coordinator_lost_during_the_offset_fetch_is_raised_once(
    autojump_clock: MockClock,
) -> None:
    async with orders() as cluster, deadline() as nursery:
        cluster.fail_next(Api.OFFSET_FETCH, ErrorCode.NOT_COORDINATOR, None)
        cluster.delay_next(Api.OFFSET_FETCH, 1.0, 1)
        member = await start_member(nursery, cluster, Recorder(), retry_max_attempts=3)
        await eventually(lambda: cluster.describe_group("g").state is GroupState.STABLE)
        cluster.fail_next(Api.FIND_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
        await member.ended.wait()
        assert isinstance(member.error, RetriesExhaustedError), "not wrapped in an ExceptionGroup"
        (ending,) = member.seen(SessionEnding)
        assert ending.lost


async def test_commit_is_retried_within_the_generation(autojump_clock: MockClock) -> None:
    async with orders(brokers=2) as cluster, deadline() as nursery:
        fill(cluster, 3)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.NOT_COORDINATOR, 1)
        cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1)
        cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.REBALANCE_IN_PROGRESS, 1)
        await handler.received(3)
        await trio.sleep(5)
        assert committed(cluster) == {"orders-0": 3}
        assert len(handler.sessions) == 1
        assert len([e for e in member.seen(Retrying) if "commit" in e.what]) == 3


async def test_oversized_metadata_raises_and_the_rest_is_committed(
    autojump_clock: MockClock,
) -> None:
    errors: list[Exception] = []

    class Verbose(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for message in claim:
                session.mark_message(message, "x" * (10_000 if claim.partition == 0 else 10))
                if claim.partition == 0:
                    try:
                        await session.commit()
                    except Exception as error:
                        errors.append(error)
                        session.reset_offset("orders", 0, 0)
                self._note("marked")

    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 1, 1)
        handler = Verbose()
        member = await start_member(nursery, cluster, handler, autocommit=False)
        await handler.until(lambda: "marked" in handler.calls)
        fill(cluster, 1, 0)
        await handler.until(lambda: handler.calls.count("marked") == 2)
        assert "OFFSET_METADATA_TOO_LARGE" in str(errors[0])
        assert committed(cluster)["orders-1"] == 1
        assert member.error is None


async def test_commit_of_an_old_generation_does_not_fail_the_member(autojump_clock: MockClock) -> None:
    class Commits(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            self._note("claim")
            async for message in claim:
                session.mark_message(message)
                await session.commit()
                self._note(f"committed {message.offset}")

    async with orders() as cluster, deadline() as nursery:
        handler = Commits()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: "claim" in handler.calls)
        cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.UNKNOWN_MEMBER_ID, 1)
        fill(cluster, 2)
        await handler.until(lambda: "committed 1" in handler.calls)
        assert member.error is None
        assert len(handler.sessions) == 2
        assert isinstance(member.seen(SessionEnding)[0], SessionEnding)
        assert member.seen(SessionEnding)[0].lost


async def test_commit_error_is_raised_from_commit(autojump_clock: MockClock) -> None:
    errors: list[CommitError] = []

    class Commits(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            self._note("claim")
            async for message in claim:
                session.mark_message(message)
                try:
                    await session.commit()
                except CommitError as error:
                    errors.append(error)
                    self._note("refused")
                    raise

    async with orders() as cluster, deadline() as nursery:
        handler = Commits()
        await start_member(nursery, cluster, handler)
        await handler.until(lambda: "claim" in handler.calls)
        cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.ILLEGAL_GENERATION, 1)
        fill(cluster, 1)
        await handler.until(lambda: "refused" in handler.calls)
        assert errors[0].code == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
async def test_lost_membership_rejoins_and_resumes_at_the_commit(autojump_clock: MockClock, code: ErrorCode) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 4)
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await eventually(lambda: committed(cluster).get("orders-0") == 4)
        cluster.fail_next(Api.HEARTBEAT, code, 1)
        await handler.until(lambda: len(handler.sessions) == 2)
        fill(cluster, 2)
        await handler.received(6)
        assert handler.offsets("orders", 0) == list(range(6))


async def test_error_of_a_fenced_member_says_what_to_change(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        cluster.fail_next(Api.HEARTBEAT, ErrorCode.FENCED_INSTANCE_ID, 1)
        await member.ended.wait()
        assert "give each member its own" in str(member.error)
        assert handler.calls[-1] == "cleanup"


async def test_second_member_with_an_instance_id_fences_the_first(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        first = await start_member(nursery, cluster, one, group_instance_id="i-1")
        await one.until(lambda: bool(one.sessions))
        second = await start_member(nursery, cluster, two, group_instance_id="i-1")
        await two.until(lambda: bool(two.sessions))
        await first.ended.wait()
        assert "FENCED_INSTANCE_ID" in str(first.error)
        assert not second.ended.is_set()
