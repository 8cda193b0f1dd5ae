"""Regressions: each test is a bug that a review or a random schedule has found. Virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Claim,
    CommitError,
    CommittedOffset,
    ErrorCode,
    FencedInstanceError,
    HandlerError,
    KafkaError,
    RebalanceDeadlineError,
    Session,
    TopicPartition,
)
from sarameya.observe import OffsetReset, Retrying, TaskStuck
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers
from tests.group.kit import (
    CutOff,
    Recorder,
    committed,
    deadline,
    eventually,
    fill,
    orders,
    start_member,
)


async def test_cleanup_raising_system_exit_ends_the_process(autojump_clock: MockClock) -> None:
    class Exits(Recorder):
        async def cleanup(self, session: Session) -> None:
            raise SystemExit(3)

    async def consume_and_close() -> None:
        async with orders() as cluster, deadline() as nursery:
            handler = Exits()
            member = await start_member(nursery, cluster, handler)
            await handler.until(lambda: bool(handler.sessions))
            await member.close()

    with pytest.raises(BaseExceptionGroup) as caught:
        await consume_and_close()
    assert caught.value.subgroup(SystemExit) is not None


async def test_long_absence_of_the_coordinator_keeps_members(
    autojump_clock: MockClock,
) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        cut = CutOff(cluster.transport)
        first = await start_member(nursery, cluster, one, transport=cut, rebalance_timeout=20.0)
        await one.until(lambda: bool(one.sessions))
        cut.alive = False
        await start_member(nursery, cluster, two, rebalance_timeout=20.0)
        await trio.sleep(60)
        cut.alive = True
        cluster.disconnect()
        await one.until(lambda: len(one.sessions) >= 2)
        assert first.error is None
        assert not first.seen(TaskStuck)


async def test_slow_cleanup_is_one_failure_and_no_stuck_task(autojump_clock: MockClock) -> None:
    class Hangs(Recorder):
        async def cleanup(self, session: Session) -> None:
            await trio.sleep_forever()

    async with orders() as cluster, deadline() as nursery:
        handler = Hangs()
        member = await start_member(nursery, cluster, handler, close_timeout=5.0)
        await handler.until(lambda: bool(handler.sessions))
        await member.close()
        assert isinstance(member.error, ExceptionGroup)
        (failure,) = member.error.exceptions
        assert isinstance(failure, RebalanceDeadlineError)
        assert not member.seen(TaskStuck)


async def test_fencing_between_sessions_is_raised_by_its_type(autojump_clock: MockClock) -> None:
    class Returns(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            return

    async with orders() as cluster, deadline() as nursery:
        handler = Returns()
        member = await start_member(nursery, cluster, handler, retry_backoff=30.0, retry_backoff_max=60.0)
        await handler.until(lambda: len(handler.sessions) >= 2)
        cluster.fail_next(Api.HEARTBEAT, ErrorCode.FENCED_INSTANCE_ID)
        await member.ended.wait()
        assert isinstance(member.error, FencedInstanceError)


async def test_close_between_sessions_does_not_wait(autojump_clock: MockClock) -> None:
    class Returns(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            return

    async with orders() as cluster, deadline() as nursery:
        handler = Returns()
        member = await start_member(nursery, cluster, handler, retry_backoff=100.0, retry_backoff_max=200.0)
        await handler.until(lambda: len(handler.sessions) >= 2)
        await trio.sleep(1)
        began = trio.current_time()
        await member.close()
        assert trio.current_time() - began < 1


@pytest.mark.parametrize("how", ["ends", "commits too late"])
async def test_short_sessions_cause_no_rebalance_storm(autojump_clock: MockClock, how: str) -> None:
    class Ends(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            if how == "ends":
                session.end("enough")
            else:
                cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.ILLEGAL_GENERATION)
                session.mark_offset("orders", 0, len(self.sessions))
                await session.commit()

    async with orders() as cluster, deadline() as nursery:
        handler = Ends()
        await start_member(nursery, cluster, handler)
        await trio.sleep(60)
        assert 3 < len(handler.sessions) < 80


async def test_topic_missing_once_is_looked_up_before_assigning(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = 0

    def leave_out(request: Any, answer: Any) -> None:
        nonlocal missing
        if missing:
            missing -= 1
            for topic in answer.topics:
                topic.error_code, topic.partitions = ErrorCode.LEADER_NOT_AVAILABLE, []

    edit_answers(monkeypatch, Api.METADATA, leave_out)
    async with orders(2) as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        missing = 2
        handler.sessions[0].end("assign again")
        await handler.until(lambda: len(handler.sessions) == 2)
        assert handler.sessions[1].claims == {"orders": (0, 1)}
        assert [e for e in member.seen(Retrying) if e.what.startswith("partitions to assign")]


async def test_partitions_added_while_running_are_assigned_and_read(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler, metadata_max_age=30.0)
        await handler.until(lambda: bool(handler.sessions))
        cluster.add_partitions("orders", 3)
        fill(cluster, 4, 2)
        await handler.received(4)
        assert handler.sessions[-1].claims == {"orders": (0, 1, 2)}


async def test_commit_in_cleanup_of_a_lost_session_does_not_fail(autojump_clock: MockClock) -> None:
    class Commits(Recorder):
        async def cleanup(self, session: Session) -> None:
            session.mark_offset("orders", 0, 1)
            await session.commit()

    async with orders() as cluster, deadline() as nursery:
        handler = Commits()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.UNKNOWN_MEMBER_ID)
        cluster.fail_next(Api.HEARTBEAT, ErrorCode.UNKNOWN_MEMBER_ID)
        await handler.until(lambda: len(handler.sessions) == 2)
        assert member.error is None


async def test_commit_after_the_session_raises_rather_than_waits(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        await member.close()
        with pytest.raises(CommitError, match="the session is over"):
            await handler.sessions[0].commit()


async def test_refused_commit_does_not_delay_other_partitions(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.until(lambda: "claim orders-1" in handler.calls)
        handler.sessions[0].mark_offset("orders", 1, 3, "x" * 10_000)
        for i in range(5):
            fill(cluster, 1, 0)
            await eventually(lambda count=i + 1: committed(cluster).get("orders-0") == count)
        assert committed(cluster) == {"orders-0": 5, "orders-1": 0}


async def test_stuck_start_offset_is_reported_and_abandoned(autojump_clock: MockClock) -> None:
    release = trio.Event()

    class Stuck(Recorder):
        async def start_offset(self, partition: TopicPartition, committed: CommittedOffset | None) -> int | None:
            self._note("stuck")
            with trio.CancelScope(shield=True):
                await release.wait()
            return None

    async with orders() as cluster, deadline() as nursery:
        handler = Stuck()
        member = await start_member(nursery, cluster, handler, close_timeout=5.0)
        await handler.until(lambda: "stuck" in handler.calls)
        member.group.close_nowait()
        await eventually(lambda: bool(member.seen(TaskStuck)))
        assert member.seen(TaskStuck)[0].what == "start_offset"
        await eventually(lambda: not cluster.describe_group("g").members)
        release.set()
        await member.ended.wait()


async def test_fatal_error_does_not_hide_an_error_of_cleanup(autojump_clock: MockClock) -> None:
    class Fails(Recorder):
        async def cleanup(self, session: Session) -> None:
            raise KeyError("cleanup")

    async with orders() as cluster, deadline() as nursery:
        handler = Fails()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        cluster.fail_next(Api.HEARTBEAT, ErrorCode.FENCED_INSTANCE_ID)
        await member.ended.wait()
        assert isinstance(member.error, ExceptionGroup)
        assert {type(e) for e in member.error.exceptions} == {FencedInstanceError, KeyError}


@pytest.mark.parametrize("value", [5.0, -7, True, "5", 2**63])
async def test_invalid_offset_is_refused_by_the_call_that_gets_it(autojump_clock: MockClock, value: object) -> None:
    class Starts(Recorder):
        async def start_offset(self, partition: TopicPartition, committed: CommittedOffset | None) -> int | None:
            return value  # type: ignore[return-value]

    async with orders() as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        with pytest.raises(ValueError, match="is no offset"):
            handler.sessions[0].mark_offset("orders", 0, value)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="is no offset"):
            handler.sessions[0].reset_offset("orders", 0, value)  # type: ignore[arg-type]
        member = await start_member(nursery, cluster, Starts(), group="other")
        await member.ended.wait()
        assert isinstance(member.error, ExceptionGroup)
        assert isinstance(member.error.exceptions[0], HandlerError)


async def test_reset_position_is_committed_at_once(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 10)
        first = Recorder()
        member = await start_member(nursery, cluster, first)
        await first.received(10)
        await member.close()
        cluster.truncate("orders", 0, 4)  # the commit of 10 now lies beyond the log
        second = Recorder()
        member = await start_member(nursery, cluster, second, offset_out_of_range="newest")
        await eventually(lambda: bool(member.seen(OffsetReset)))
        await eventually(lambda: committed(cluster) == {"orders-0": 4})
        await member.close()
        fill(cluster, 3)
        third = Recorder()
        await start_member(nursery, cluster, third, offset_out_of_range="newest")
        await third.received(3)
        assert third.offsets("orders", 0) == [4, 5, 6]


async def test_marks_continue_from_a_position_reset_backward(autojump_clock: MockClock) -> None:
    class FromTwenty(Recorder):
        async def start_offset(self, partition: TopicPartition, committed: CommittedOffset | None) -> int | None:
            return 20 if committed is None else None

    async with orders() as cluster, deadline() as nursery:
        cluster.produce_many("orders", 0, [(None, b"x")] * 10)
        handler = FromTwenty()
        await start_member(nursery, cluster, handler, offset_out_of_range="oldest")
        await handler.received(10)
        assert handler.offsets("orders", 0) == list(range(10))
        await eventually(lambda: committed(cluster) == {"orders-0": 10})


async def test_session_ending_during_setup_starts_no_claim(autojump_clock: MockClock) -> None:
    class SlowSetup(Recorder):
        async def setup(self, session: Session) -> None:
            self._note("setup")
            await trio.sleep(5)

        async def start_offset(self, partition: TopicPartition, committed: CommittedOffset | None) -> int | None:
            self._note("start_offset")
            return None

    async with orders() as cluster, deadline() as nursery:
        handler = SlowSetup()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: "setup" in handler.calls)
        await member.close()
        assert handler.calls == ["setup", "cleanup"]
        assert member.error is None


async def test_topic_without_subscribers_causes_no_rebalance(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline(2000) as nursery:
        cluster.create_topic("other", 2)
        leader, guest = Recorder(), Recorder()
        await start_member(nursery, cluster, leader, metadata_max_age=10.0)
        await leader.until(lambda: len(leader.sessions) == 1)
        second = await start_member(nursery, cluster, guest, topics=("other",))
        await leader.until(lambda: len(leader.sessions) == 2)
        await second.close()
        await leader.until(lambda: len(leader.sessions) == 3)
        await trio.sleep(1000)
        assert len(leader.sessions) == 3


async def test_commit_error_names_every_refused_partition(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler, autocommit=False)
        await handler.until(lambda: sum(call.startswith("claim") for call in handler.calls) == 2)
        for partition in (0, 1):
            handler.sessions[0].mark_offset("orders", partition, 3, "x" * 10_000)
        with pytest.raises(KafkaError, match="OFFSET_METADATA_TOO_LARGE") as caught:
            await handler.sessions[0].commit()
        text = str(caught.value) + "".join(caught.value.__notes__)
        assert "orders-0" in text
        assert "orders-1" in text
