"""The end of a session: grace, deadline, cancellation. Over the in-memory cluster under virtual time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Claim,
    Message,
    RebalanceDeadlineError,
    Session,
    TopicPartition,
)
from sarameya.observe import (
    ClaimCancelled,
    CommitFailed,
    TaskStuck,
)
from tests.group.kit import CutOff, Recorder, committed, deadline, fill, orders, start_member


async def test_claim_that_does_not_return_is_cancelled_after_its_grace(autojump_clock: MockClock) -> None:
    cancelled_at: list[float] = []

    class Deaf(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            self._note("claim")
            try:
                await trio.sleep_forever()
            finally:
                cancelled_at.append(trio.current_time())

    async with orders() as cluster, deadline() as nursery:
        handler = Deaf()
        member = await start_member(nursery, cluster, handler, claim_grace=5.0, close_timeout=60.0)
        await handler.until(lambda: "claim" in handler.calls)
        began = trio.current_time()
        await member.close()
        assert cancelled_at[0] - began == pytest.approx(5.0)
        assert [e.partition for e in member.seen(ClaimCancelled)] == [TopicPartition("orders", 0)]
        assert handler.calls[-1] == "cleanup"
        assert member.error is None


async def test_grace_leaves_time_for_cleanup_before_the_close_timeout(autojump_clock: MockClock) -> None:
    class Deaf(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            self._note("claim")
            await trio.sleep_forever()

    async with orders() as cluster, deadline() as nursery:
        handler = Deaf()
        member = await start_member(nursery, cluster, handler, claim_grace=30.0, close_timeout=10.0)
        await handler.until(lambda: "claim" in handler.calls)
        began = trio.current_time()
        await member.close()
        assert trio.current_time() - began == pytest.approx(8.0)


async def test_task_that_ignores_cancellation_is_reported_as_stuck(
    autojump_clock: MockClock,
) -> None:
    release = trio.Event()

    class Stubborn(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            self._note("claim")
            with trio.CancelScope(shield=True):
                await release.wait()

    async with orders() as cluster, deadline() as nursery:
        handler = Stubborn()
        member = await start_member(nursery, cluster, handler, claim_grace=2.0, close_timeout=10.0)
        await handler.until(lambda: "claim" in handler.calls)
        member.group.close_nowait()
        await trio.sleep(11)
        (stuck,) = member.seen(TaskStuck)
        assert stuck.what == "claim of orders-0"
        assert "release.wait()" in stuck.stack
        assert not cluster.describe_group("g").members, "its partitions are free for other members"
        assert not member.ended.is_set()
        release.set()
        await member.ended.wait()
        assert isinstance(member.error, ExceptionGroup)
        assert isinstance(member.error.exceptions[0], RebalanceDeadlineError)


async def test_rebalance_deadline_bounds_a_cleanup_that_hangs(autojump_clock: MockClock) -> None:
    class Hangs(Recorder):
        async def cleanup(self, session: Session) -> None:
            self._note("cleanup")
            await trio.sleep_forever()

    async with orders() as cluster, deadline() as nursery:
        handler = Hangs()
        member = await start_member(nursery, cluster, handler, close_timeout=4.0)
        await handler.until(lambda: "setup" in handler.calls)
        began = trio.current_time()
        await member.close()
        assert trio.current_time() - began < 6.0
        assert isinstance(member.error, ExceptionGroup)
        assert isinstance(member.error.exceptions[0], RebalanceDeadlineError)


async def test_close_is_bounded_where_the_coordinator_does_not_answer(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        handler = Recorder()
        cut = CutOff(cluster.transport)
        member = await start_member(
            nursery, cluster, handler, transport=cut, close_timeout=6.0, autocommit_interval=1000.0
        )
        await handler.received(5)
        cut.alive = False
        began = trio.current_time()
        await member.close()
        assert trio.current_time() - began <= 7.5
        assert member.error is None, "a commit without a response is not a failure of the handler"
        assert "the last commit" in member.seen(CommitFailed)[0].cause


async def test_cancelled_consume_cleans_up_commits_and_leaves(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(5)
        await trio.testing.wait_all_tasks_blocked()
        member.scope.cancel()
        await member.ended.wait()
        assert handler.calls[-1] == "cleanup"
        assert committed(cluster) == {"orders-0": 5}
        assert not cluster.describe_group("g").members


async def test_commit_in_cleanup_of_a_cancelled_session_works(autojump_clock: MockClock) -> None:
    class Commits(Recorder):
        async def cleanup(self, session: Session) -> None:
            await session.commit()
            self._note("committed")

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        handler = Commits()
        member = await start_member(nursery, cluster, handler, autocommit=False)
        await handler.received(5)
        await trio.testing.wait_all_tasks_blocked()
        member.scope.cancel()
        await member.ended.wait()
        assert handler.calls[-1] == "committed"
        assert committed(cluster) == {"orders-0": 5}


async def test_buffered_messages_are_dropped_when_the_session_ends(autojump_clock: MockClock) -> None:
    async def close_at_two(session: Session, claim: Claim, message: Message) -> None:
        if message.offset == 2:
            member.group.close_nowait()
            await trio.sleep(1)

    async with orders() as cluster, deadline() as nursery:
        cluster.produce_many("orders", 0, [(None, b"x")] * 1000)
        handler = Recorder(close_at_two)
        member = await start_member(nursery, cluster, handler)
        await member.ended.wait()
        assert handler.offsets("orders", 0) == [0, 1, 2]
        assert committed(cluster) == {"orders-0": 3}
