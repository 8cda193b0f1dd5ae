"""Endings that overlap: the last request takes effect within its own deadline, and failures are raised."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, ErrorCode, RebalanceDeadlineError, Session, TopicPartition
from sarameya.observe import CommitFailed, Event, SessionEnded, SessionEnding, TaskStuck
from sarameya.protocol.versions import Api
from tests.group.kit import Recorder, Running, committed, deadline, eventually, failure, fill, orders, start_member
from tests.group.test_cooperative import Partitions, start

MINIMUM_SECONDS = 1.0
"""The minimum time for an orderly end, whatever the deadline."""


class SlowCleanup(Recorder):
    async def cleanup(self, session: Session) -> None:
        self._note("cleanup begins")
        await trio.sleep(50)
        self._note("cleanup")


async def end_by_itself(handler: Recorder, nursery: trio.Nursery, cluster: Any) -> None:
    handler.sessions[-1].end("enough")


async def end_by_a_rebalance(handler: Recorder, nursery: trio.Nursery, cluster: Any) -> None:
    await start_member(nursery, cluster, Recorder())


@pytest.mark.parametrize("end", [end_by_itself, end_by_a_rebalance])
async def test_cancellation_while_ending_is_within_close_timeout(
    autojump_clock: MockClock, end: Callable[[Recorder, trio.Nursery, Any], Awaitable[None]]
) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        handler, reasons = SlowCleanup(), list[str]()

        def note(event: Event) -> None:
            if isinstance(event, SessionEnding | SessionEnded):
                reasons.append(event.reason)

        member = await start_member(nursery, cluster, handler, close_timeout=5.0, observers=[note])
        await handler.until(lambda: "claim orders-0" in handler.calls)
        await end(handler, nursery, cluster)
        await handler.until(lambda: "cleanup begins" in handler.calls)
        began = trio.current_time()
        member.scope.cancel()
        await member.ended.wait()
        assert trio.current_time() - began <= 5.0 + MINIMUM_SECONDS
        assert isinstance(failure(member), RebalanceDeadlineError)
        first, last = reasons
        assert first == last, "a later reason does not replace it"


async def test_close_at_the_end_of_a_session_is_not_lost(autojump_clock: MockClock) -> None:
    """The session's task has received the notice, but has not run yet, when the session ends."""
    async with orders(2) as cluster, deadline() as nursery:
        handler, members = Recorder(), list[Running]()

        def close(event: Event) -> None:
            if isinstance(event, SessionEnded):
                members[0].group.close_nowait()

        members.append(await start_member(nursery, cluster, handler, observers=[close]))
        await handler.until(lambda: "claim orders-0" in handler.calls)
        await end_by_a_rebalance(handler, nursery, cluster)
        with trio.fail_after(10):
            await members[0].ended.wait()
        assert members[0].error is None
        assert len(handler.sessions) == 1


async def test_close_during_the_last_revocation_cleans_up_and_commits(
    autojump_clock: MockClock,
) -> None:
    class Slow(Partitions):
        async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
            self._note("revoking")
            await trio.sleep(40)

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        handler = Slow()
        member = await start_member(nursery, cluster, handler, close_timeout=5.0, autocommit_interval=1000.0)
        await handler.received(5)
        handler.sessions[-1].end("enough")
        await handler.until(lambda: "revoking" in handler.calls)
        began = trio.current_time()
        await member.close()
        assert trio.current_time() - began <= 5.0
        assert "cleanup" in handler.calls
        assert "partitions_revoked" in str(failure(member)), "the call that took too long"
        assert committed(cluster) == {"orders-0": 5}


async def start_with_failing_revocation_commit(
    nursery: trio.Nursery, cluster: Any, handler: Partitions, **options: Any
) -> Running:
    """Start two members. Return the one whose commit of revoked partitions fails with a retriable error, each time."""
    member = await start(nursery, cluster, handler, client_id="one", **options)
    await handler.until(lambda: len(handler.claims) == 4)
    await trio.sleep(5)
    cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None, client_id="one")
    for partition in range(4):
        fill(cluster, 3, partition)
    await handler.received(12)
    await start(nursery, cluster, Partitions(), **{k: v for k, v in options.items() if k == "rebalance_timeout"})
    await handler.until(lambda: any(call.startswith("revoked") for call in handler.calls))
    return member


@pytest.mark.parametrize("unsubscribes", [False, True])
async def test_close_during_a_failing_commit_is_within_close_timeout(
    autojump_clock: MockClock, unsubscribes: bool
) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        handler = Partitions()
        member = await start_with_failing_revocation_commit(nursery, cluster, handler, close_timeout=5.0)
        began = trio.current_time()
        if unsubscribes:
            member.group.unsubscribe()
            await eventually(lambda: bool(member.seen(SessionEnded)))
        else:
            await member.close()
        assert trio.current_time() - began <= 5.0 + MINIMUM_SECONDS
        assert "cleanup" in handler.calls
        assert member.seen(CommitFailed)
        assert member.error is None


async def test_revocation_commit_that_fails_is_reported(autojump_clock: MockClock) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        member = await start_with_failing_revocation_commit(nursery, cluster, Partitions(), rebalance_timeout=20.0)
        assert not member.seen(CommitFailed)
        await eventually(lambda: bool(member.seen(CommitFailed)))
        assert "revoked" in str(member.seen(CommitFailed)[0])


async def test_session_ending_before_a_deadline_has_a_minimum_time(autojump_clock: MockClock) -> None:
    """The commit of revoked partitions fails until the deadline. The group is closed 0.2 s before it."""

    class Slow(Partitions):
        async def cleanup(self, session: Session) -> None:
            await trio.sleep(0.75)
            self._note("cleanup")

    async with orders(4) as cluster, deadline() as nursery:
        handler = Slow()
        member = await start_with_failing_revocation_commit(nursery, cluster, handler, rebalance_timeout=20.0)
        await trio.sleep(18.8)
        await member.close()
        assert "cleanup" in handler.calls
        assert not member.seen(TaskStuck)
        assert member.error is None


async def test_cleanup_after_a_stuck_claim_has_time(autojump_clock: MockClock) -> None:
    release = trio.Event()

    class Stubborn(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            self._note("claim")
            with trio.CancelScope(shield=True):
                await release.wait()

        async def partitions_lost(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
            await trio.sleep(0.01)

        async def cleanup(self, session: Session) -> None:
            await trio.sleep(0.01)
            self._note("cleanup")

    async with orders() as cluster, deadline() as nursery:
        handler = Stubborn()
        member = await start_member(nursery, cluster, handler, claim_grace=2.0, close_timeout=10.0)
        await handler.until(lambda: "claim" in handler.calls)
        member.group.close_nowait()
        await trio.sleep(15)
        assert len(member.seen(TaskStuck)) == 1
        release.set()
        await member.ended.wait()
        assert handler.calls[-1] == "cleanup"
        assert "claim of orders-0" in str(failure(member)), "no other task"


@pytest.mark.parametrize("where", ["cleanup", "claim", "before"])
async def test_failure_in_a_cancelled_session_is_raised(autojump_clock: MockClock, where: str) -> None:
    class Fails(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            self._note("claim")
            if where == "before":
                await self.until(lambda: self.calls.count("claim") == 2)
                if claim.partition == 1:
                    raise OSError("disk full")
                await trio.sleep(5)
            try:
                await trio.sleep_forever()
            finally:
                if where == "claim" and claim.partition == 1:
                    raise OSError("disk full")

        async def cleanup(self, session: Session) -> None:
            self._note("cleanup")
            if where == "cleanup":
                raise OSError("disk full")

    async with orders(2) as cluster, deadline() as nursery:
        handler = Fails()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: handler.calls.count("claim") == 2)
        await trio.sleep(1)
        member.scope.cancel()
        await member.ended.wait()
        error = failure(member)
        assert isinstance(error if where == "cleanup" else error.__cause__, OSError)
