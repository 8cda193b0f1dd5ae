"""Late or repeated events: looked-up starts, metadata for a join, failures around a deadline, refusals."""

from __future__ import annotations

import re
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, ErrorCode, GroupAuthorizationError, Session
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import ClaimStarted, CommitFailed, MembershipChanged, SessionEnding, TaskStuck
from sarameya.protocol.versions import Api
from tests.group.kit import Recorder, committed, deadline, eventually, failure, fill, orders, start_member
from tests.group.test_cooperative import Partitions, produce_for, start
from tests.group.test_silent_coordinator import ReadTimes


@pytest.mark.parametrize("autocommit", [False, True])
async def test_looked_up_start_is_kept_though_its_commit_got_no_response(
    autojump_clock: MockClock, autocommit: bool
) -> None:
    """A second look-up of `newest` would skip the messages that have been written since the first."""
    options: dict[str, Any] = {"offset_initial": "newest", "autocommit": autocommit, "rebalance_timeout": 20.0}
    async with orders(4) as cluster, deadline() as nursery:
        for partition in range(4):
            fill(cluster, 10, partition)
        one = Partitions()
        refused = 30 if autocommit else 12
        cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, refused, client_id="one")
        member = await start(nursery, cluster, one, client_id="one", **options)
        await one.until(lambda: "assigned 0 1 2 3" in one.calls)
        await trio.sleep(1)
        for partition in range(4):
            fill(cluster, 7, partition)
        await start(nursery, cluster, Partitions(), **options)
        await trio.sleep(90)
        kept = {event.partition.partition: event.offset for event in member.seen(ClaimStarted)}
        assert set(kept.values()) == {10}
        assert {p: one.offsets("orders", p) for p in kept} == {p: [*range(10, 17)] for p in kept}


async def test_join_of_a_pattern_waits_briefly_for_metadata(
    autojump_clock: MockClock,
) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one, two = ReadTimes(), ReadTimes()
        topics = re.compile("ord.*")
        first = await start(nursery, cluster, one, client_id="one", autocommit=False, topics=topics)
        await one.until(lambda: one.claims == (0, 1))
        nursery.start_soon(produce_for, cluster, 60.0, 2)
        await trio.sleep(5)
        cluster.delay_next(Api.METADATA, 25.0, 1, client_id="one")
        await start(nursery, cluster, two, client_id="two", autocommit=False, topics=topics)
        await two.until(lambda: two.claims != ())
        await trio.sleep(40)
        assert [e for e in first.seen(MembershipChanged) if e.after == "LOST"] == []
        assert all(one.last_read[partition] <= began for partition, began in two.first_read.items()), "both read it"


@pytest.mark.parametrize("fails", [False, True])
async def test_failures_around_the_deadline_do_not_postpone_it(autojump_clock: MockClock, fails: bool) -> None:
    """Claims fail one after the other, 0.9 s apart, around the rebalance's deadline; another one is stuck."""

    class Slow(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            self._note("claim")
            async for _ in claim:
                pass
            with trio.CancelScope(shield=True):
                await trio.sleep(60.0 if claim.partition == 0 else 15.0 + 0.9 * claim.partition)
            if fails:
                raise OSError("disk full")

    async with orders(16) as cluster, deadline() as nursery:
        one = Slow()
        member = await start_member(nursery, cluster, one, rebalance_timeout=20.0, claim_grace=5.0)
        await one.until(lambda: one.calls.count("claim") == 16)
        began = trio.current_time()
        await start_member(nursery, cluster, Recorder(), rebalance_timeout=20.0)
        await eventually(lambda: bool(member.seen(TaskStuck)))
        assert trio.current_time() - began <= 20.0
        await member.ended.wait()


@pytest.mark.parametrize("returns_after", [9.1, 9.7, 10.2])
async def test_claim_returning_around_the_deadline_is_not_stuck(
    autojump_clock: MockClock, returns_after: float
) -> None:
    class Slow(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            self._note("claim")
            async for _ in claim:
                pass
            with trio.CancelScope(shield=True):
                await trio.sleep(returns_after)

        async def cleanup(self, session: Session) -> None:
            await trio.sleep(0.85)
            self._note("cleanup")

    async with orders() as cluster, deadline() as nursery:
        one = Slow()
        member = await start_member(nursery, cluster, one, close_timeout=10.0)
        await one.until(lambda: "claim" in one.calls)
        await member.close()
        assert one.calls[-1] == "cleanup"
        assert member.seen(TaskStuck) == []
        assert member.error is None


async def test_membership_failure_is_raised_despite_cancellation(
    autojump_clock: MockClock,
) -> None:
    class Slow(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            self._note("claim")
            async for _ in claim:
                pass
            await trio.sleep(5)

    async with orders() as cluster, deadline() as nursery:
        one = Slow()
        member = await start_member(nursery, cluster, one)
        await one.until(lambda: "claim" in one.calls)
        cluster.fail_next(Api.HEARTBEAT, ErrorCode.GROUP_AUTHORIZATION_FAILED, None)
        await eventually(lambda: bool(member.seen(SessionEnding)))
        await trio.sleep(1)
        member.scope.cancel()
        await member.ended.wait()
        assert isinstance(failure(member), GroupAuthorizationError)


async def test_refusal_of_a_commit_without_a_caller_is_reported(autojump_clock: MockClock) -> None:
    class StopsWaiting(Recorder):
        def __init__(self, cluster: EmbeddedCluster) -> None:
            super().__init__()
            self.cluster = cluster

        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for message in claim:
                session.mark_message(message)
                self.cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 6)
                self.cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.TOPIC_AUTHORIZATION_FAILED, 1)
                with trio.move_on_after(1):
                    await session.commit()
                self._note("stopped waiting")

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 1)
        one = StopsWaiting(cluster)
        member = await start_member(nursery, cluster, one, autocommit=False)
        await one.until(lambda: "stopped waiting" in one.calls)
        await eventually(lambda: bool(member.seen(CommitFailed)))
        assert "TOPIC_AUTHORIZATION_FAILED" in str(member.seen(CommitFailed)[0])
        assert committed(cluster) == {"orders-0": 0}
