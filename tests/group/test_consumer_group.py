"""The loop and the life of a session, over the in-memory cluster under virtual time."""

from __future__ import annotations

import pytest
import trio
from sarameya import (
    Claim,
    ClaimError,
    CommitError,
    CommittedOffset,
    Config,
    ConfigError,
    ConnectError,
    ConsumerGroup,
    ConsumerGroupHandler,
    ErrorCode,
    Message,
    RebalanceDeadlineError,
    Session,
    TopicPartition,
    UnknownTopicError,
)
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import (
    ClaimCancelled,
    ClaimStarted,
    Committed,
    MembershipChanged,
    Retrying,
    SessionEnding,
    SessionStarted,
    TaskStuck,
)
from sarameya.protocol.versions import Api
from trio.testing import MockClock

from tests.group.kit import CutOff, Recorder, committed, deadline, eventually, start_member


def orders(partitions: int = 1, brokers: int = 1) -> EmbeddedCluster:
    return EmbeddedCluster(topics={"orders": partitions}, brokers=brokers, in_memory=True, seed=1)


def fill(cluster: EmbeddedCluster, count: int, partition: int = 0, topic: str = "orders") -> None:
    for i in range(count):
        cluster.produce(topic, partition, b"%d" % i)


# -- a session ------------------------------------------------------------------------------------------


async def test_session_runs_setup_claims_cleanup_in_order_and_commits(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 10, 0)
        fill(cluster, 5, 1)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(15)
        await member.close()
        assert handler.calls[0] == "setup"
        assert sorted(handler.calls[1:3]) == ["claim orders-0", "claim orders-1"]
        assert sorted(handler.calls[3:5]) == ["end orders-0", "end orders-1"]
        assert handler.calls[5:] == ["cleanup"]
        assert handler.offsets("orders", 0) == list(range(10))
        assert committed(cluster) == {"orders-0": 10, "orders-1": 5}
        assert member.error is None


async def test_session_tells_who_it_is_and_what_it_claims(autojump_clock: MockClock) -> None:
    async with orders(3) as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        session = handler.sessions[0]
        assert session.claims == {"orders": (0, 1, 2)}
        assert (session.group, session.generation) == ("g", 1)
        assert session.member_id in str(cluster.describe_group("g"))


async def test_new_session_begins_where_the_last_one_committed(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        first = Recorder()
        member = await start_member(nursery, cluster, first)
        await first.received(5)
        await member.close()
        fill(cluster, 3)
        second = Recorder()
        await start_member(nursery, cluster, second)
        await second.received(3)
        assert second.offsets("orders", 0) == [5, 6, 7]


async def test_autocommit_commits_marks_while_the_session_runs(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        handler = Recorder()
        await start_member(nursery, cluster, handler, autocommit_interval=1.0)
        await handler.received(5)
        await trio.sleep(1.5)
        assert committed(cluster) == {"orders-0": 5}


async def test_without_autocommit_only_commit_commits(autojump_clock: MockClock) -> None:
    async def commit_at_three(session: Session, claim: Claim, message: Message) -> None:
        if message.offset == 3:
            await session.commit()  # the marks so far: up to and with offset 2

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        handler = Recorder(commit_at_three)
        member = await start_member(nursery, cluster, handler, autocommit=False)
        await handler.received(5)
        await trio.sleep(30)
        await member.close()
        assert committed(cluster) == {"orders-0": 3}


async def test_resolved_newest_start_is_committed_before_any_mark(autojump_clock: MockClock) -> None:
    """sarama does not, so that a rejoin before the first mark skips what came in between."""
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        first = Recorder()
        member = await start_member(nursery, cluster, first, offset_initial="newest")
        await first.until(lambda: "claim orders-0" in first.calls)
        await member.close()
        assert committed(cluster) == {"orders-0": 5}
        fill(cluster, 2)
        second = Recorder()
        await start_member(nursery, cluster, second, offset_initial="newest")
        await second.received(2)
        assert second.offsets("orders", 0) == [5, 6]


async def test_start_offset_of_the_handler_overrules_the_commit(autojump_clock: MockClock) -> None:
    asked: list[tuple[TopicPartition, CommittedOffset | None]] = []

    class Knows(Recorder):
        async def start_offset(self, partition: TopicPartition, committed: CommittedOffset | None) -> int | None:
            asked.append((partition, committed))
            return 7 if partition.partition == 0 else None

    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 10, 0)
        fill(cluster, 2, 1)
        handler = Knows()
        member = await start_member(nursery, cluster, handler)
        await handler.received(5)
        assert handler.offsets("orders", 0) == [7, 8, 9]
        assert handler.offsets("orders", 1) == [0, 1]
        assert asked == [(TopicPartition("orders", 0), None), (TopicPartition("orders", 1), None)]
        whys = {e.partition.partition: e.why for e in member.seen(ClaimStarted)}
        assert whys == {0: "handler", 1: "oldest"}


async def test_mark_of_a_partition_that_is_not_claimed_raises(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        with pytest.raises(ValueError, match="orders-9 is not claimed"):
            handler.sessions[0].mark_offset("orders", 9, 1)
        with pytest.raises(ValueError, match="other-0 is not claimed"):
            handler.sessions[0].reset_offset("other", 0, 1)


async def test_reset_offset_lets_the_next_session_read_again(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 6)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(6)
        handler.sessions[0].reset_offset("orders", 0, 2, "replay")
        await member.close()
        assert cluster.committed("g")[TopicPartition("orders", 0)].metadata == "replay"
        assert committed(cluster) == {"orders-0": 2}


async def test_commit_metadata_and_leader_epoch_travel_with_the_commit(autojump_clock: MockClock) -> None:
    class Annotates(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for message in claim:
                session.mark_message(message, f"at {message.offset}")
                await session.commit()

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 2)
        await start_member(nursery, cluster, Annotates())
        await trio.sleep(5)
        assert cluster.committed("g")[TopicPartition("orders", 0)] == CommittedOffset(2, "at 1", 0)


# -- several members --------------------------------------------------------------------------------------


async def test_second_member_takes_its_share_and_gives_it_back(autojump_clock: MockClock) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        first = await start_member(nursery, cluster, one)
        await one.until(lambda: len(one.sessions) == 1)
        second = await start_member(nursery, cluster, two)
        await two.until(lambda: len(two.sessions) == 1)
        await one.until(lambda: len(one.sessions) == 2)
        assert sorted([one.sessions[1].claims["orders"], two.sessions[0].claims["orders"]]) == [(0, 1), (2, 3)]
        await second.close()
        await one.until(lambda: len(one.sessions) == 3)
        assert one.sessions[2].claims == {"orders": (0, 1, 2, 3)}
        assert first.error is None
        assert second.error is None


async def test_rebalance_loses_nothing_and_repeats_nothing(autojump_clock: MockClock) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        await start_member(nursery, cluster, one)

        async def keep_producing() -> None:
            for i in range(200):
                cluster.produce("orders", i % 4, b"%d" % i)
                await trio.sleep(0.1)

        nursery.start_soon(keep_producing)
        await one.received(40)
        second = await start_member(nursery, cluster, two)
        await two.received(30)
        await second.close()
        await one.until(lambda: len(one.messages) + len(two.messages) >= 200)
        assert sorted(one.values() + two.values(), key=lambda v: int(v or b"")) == [b"%d" % i for i in range(200)]


async def test_surplus_member_stays_idle_and_takes_over(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        first = await start_member(nursery, cluster, one)
        await one.until(lambda: len(one.sessions) == 1)
        second = await start_member(nursery, cluster, two)
        await two.until(lambda: len(two.sessions) == 1)
        await one.until(lambda: len(one.sessions) == 2)
        idle, busy = (one, two) if not one.sessions[1].claims.get("orders") else (two, one)
        await (second if busy is two else first).close()
        fill(cluster, 3)
        await idle.received(3)


async def test_round_robin_group_deals_partitions_in_turn(autojump_clock: MockClock) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        await start_member(nursery, cluster, one, rebalance_strategies=("roundrobin",))
        await one.until(lambda: len(one.sessions) == 1)
        await start_member(nursery, cluster, two, rebalance_strategies=("roundrobin",))
        await two.until(lambda: len(two.sessions) == 1)
        await one.until(lambda: len(one.sessions) == 2)
        assert sorted([one.sessions[1].claims["orders"], two.sessions[0].claims["orders"]]) == [(0, 2), (1, 3)]


async def test_frozen_member_is_expelled_and_its_partitions_go_on_elsewhere(autojump_clock: MockClock) -> None:

    async with orders(2) as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        cut = CutOff(cluster.transport)
        frozen = await start_member(nursery, cluster, one, transport=cut)
        await one.until(lambda: len(one.sessions) == 1)
        await start_member(nursery, cluster, two)
        await two.until(lambda: len(two.sessions) == 1)
        cut.alive = False
        fill(cluster, 5, 0)
        fill(cluster, 5, 1)
        await two.received(10)
        assert two.sessions[-1].claims == {"orders": (0, 1)}
        frozen.scope.cancel()
        await frozen.ended.wait()


async def test_expelled_member_that_wakes_commits_nothing_and_rejoins(autojump_clock: MockClock) -> None:

    async with orders(1) as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        cut = CutOff(cluster.transport)
        zombie = await start_member(nursery, cluster, one, transport=cut, autocommit_interval=1000.0)
        fill(cluster, 3)
        await one.received(3)
        cut.alive = False
        await start_member(nursery, cluster, two, autocommit_interval=1.0)
        await two.received(3)  # nothing was committed: read again
        fill(cluster, 2)
        await two.received(5)
        await trio.sleep(2)
        assert committed(cluster) == {"orders-0": 5}
        cut.alive = True
        cluster.disconnect()
        await one.until(lambda: len(one.sessions) == 2)
        assert zombie.seen(SessionEnding)[0].lost
        assert committed(cluster) == {"orders-0": 5}, "the zombie's mark of 3 was never committed"


# -- slow, failing, returning handlers ------------------------------------------------------------------


async def test_handler_that_waits_three_session_timeouts_keeps_its_membership(autojump_clock: MockClock) -> None:
    async def dawdle(session: Session, claim: Claim, message: Message) -> None:
        await trio.sleep(3 * 10.0)

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 3)
        handler = Recorder(dawdle)
        member = await start_member(nursery, cluster, handler, session_timeout=10.0, heartbeat_interval=3.0)
        await eventually(lambda: committed(cluster).get("orders-0", 0) == 3)
        assert len(handler.sessions) == 1
        assert not member.seen(SessionEnding)


async def test_failing_claim_ends_session_in_order_and_is_raised_with_its_coordinates(
    autojump_clock: MockClock,
) -> None:
    boom = ValueError("cannot handle this")

    async def fail_at_five(session: Session, claim: Claim, message: Message) -> None:
        if (message.partition, message.offset) == (1, 5):
            raise boom

    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 3, 0)
        fill(cluster, 10, 1)
        handler = Recorder(fail_at_five)
        member = await start_member(nursery, cluster, handler)
        await member.ended.wait()
        assert isinstance(member.error, ExceptionGroup)
        (failure,) = member.error.exceptions
        assert isinstance(failure, ClaimError)
        assert (failure.partition, failure.offset, failure.generation) == (TopicPartition("orders", 1), 6, 1)
        assert failure.__cause__ is boom
        assert handler.calls[-2:] == ["end orders-0", "cleanup"], "the neighbour drained, then cleanup ran"
        assert committed(cluster) == {"orders-0": 3, "orders-1": 5}
        assert not cluster.describe_group("g").members, "the member has left"


async def test_all_failing_claims_are_in_the_group(autojump_clock: MockClock) -> None:
    async def fail(session: Session, claim: Claim, message: Message) -> None:
        raise ValueError(f"partition {claim.partition}")

    async with orders(3) as cluster, deadline() as nursery:
        handler = Recorder(fail)
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: len([c for c in handler.calls if c.startswith("claim")]) == 3)
        for partition in range(3):
            fill(cluster, 1, partition)
        await member.ended.wait()
        assert isinstance(member.error, ExceptionGroup)
        assert all(isinstance(e, ClaimError) for e in member.error.exceptions)


async def test_failing_setup_runs_cleanup_and_no_claim(autojump_clock: MockClock) -> None:
    class Broken(Recorder):
        async def setup(self, session: Session) -> None:
            raise RuntimeError("no database")

    async with orders() as cluster, deadline() as nursery:
        handler = Broken()
        member = await start_member(nursery, cluster, handler)
        await member.ended.wait()
        assert handler.calls == ["cleanup"]
        assert isinstance(member.error, ExceptionGroup)
        (error,) = member.error.exceptions
        assert str(error) == "no database"
        assert error.__notes__ == ["in setup of group 'g', generation 1"]


async def test_failing_offset_fetch_runs_no_cleanup(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        cluster.fail_next(Api.OFFSET_FETCH, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await member.ended.wait()
        assert handler.calls == []
        assert isinstance(member.error, ExceptionGroup)
        assert "TOPIC_AUTHORIZATION_FAILED" in str(member.error.exceptions[0])


async def test_unstable_offset_fetch_is_retried_and_never_starts_at_the_policy(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 5)
        first = Recorder()
        member = await start_member(nursery, cluster, first)
        await first.received(5)
        await member.close()
        cluster.fail_next(Api.OFFSET_FETCH, ErrorCode.UNSTABLE_OFFSET_COMMIT, 4)
        second = Recorder()
        member = await start_member(nursery, cluster, second)
        await second.until(lambda: "claim orders-0" in second.calls)
        assert member.seen(ClaimStarted)[0].offset == 5
        assert [e.attempt for e in member.seen(Retrying) if "offset fetch" in e.what] == [1, 2, 3, 4]


async def test_claim_that_returns_ends_the_session_and_the_group_rejoins(autojump_clock: MockClock) -> None:
    class Takes(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            self._note("claim")
            async for message in claim:
                self.messages.append(message)
                session.mark_message(message)
                if len(self.messages) % 3 == 0:
                    return

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 9)
        handler = Takes()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: handler.calls.count("setup") >= 4)
        assert handler.offsets("orders", 0) == list(range(9))
        assert not [e for e in member.seen(SessionEnding) if e.lost]


async def test_claim_that_returns_at_once_again_and_again_meets_backoff(autojump_clock: MockClock) -> None:
    class Returns(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            return

    async with orders() as cluster, deadline() as nursery:
        handler = Returns()
        member = await start_member(nursery, cluster, handler, retry_backoff=0.1, retry_backoff_max=2.0)
        await trio.sleep(60)
        assert handler.calls.count("setup") < 60, "no rebalance storm"
        assert [e for e in member.seen(Retrying) if e.what == "session"]


# -- grace, deadline, cancellation ---------------------------------------------------------------------


async def test_claim_that_ignores_the_end_is_cancelled_after_its_grace(autojump_clock: MockClock) -> None:
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
        asked = trio.current_time()
        await member.close()
        assert cancelled_at[0] - asked == pytest.approx(5.0)
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
        asked = trio.current_time()
        await member.close()
        assert trio.current_time() - asked == pytest.approx(8.0)


async def test_task_that_swallows_its_cancellation_is_named_and_the_member_leaves_without_it(
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
        assert not cluster.describe_group("g").members, "others may have its partitions"
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
        asked = trio.current_time()
        await member.close()
        assert trio.current_time() - asked < 6.0
        assert isinstance(member.error, ExceptionGroup)
        assert isinstance(member.error.exceptions[0], RebalanceDeadlineError)


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


# -- the coordinator ------------------------------------------------------------------------------------


async def test_coordinator_that_moves_costs_no_session(autojump_clock: MockClock) -> None:
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


async def test_coordinator_not_available_at_first_is_waited_for(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        cluster.fail_next(Api.FIND_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, 5)
        fill(cluster, 1)
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.received(1)


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


async def test_commit_with_oversized_metadata_raises_to_its_caller_and_commits_the_rest(
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


async def test_handler_whose_commit_comes_after_its_generation_is_no_failure(autojump_clock: MockClock) -> None:
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
async def test_lost_membership_rejoins_and_reads_on_from_the_commit(autojump_clock: MockClock, code: ErrorCode) -> None:
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


async def test_fenced_member_fails_with_what_to_change(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        cluster.fail_next(Api.HEARTBEAT, ErrorCode.FENCED_INSTANCE_ID, 1)
        await member.ended.wait()
        assert "give each member its own" in str(member.error)
        assert handler.calls[-1] == "cleanup"


async def test_two_members_with_one_instance_id_leave_exactly_one(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        first = await start_member(nursery, cluster, one, group_instance_id="i-1")
        await one.until(lambda: bool(one.sessions))
        second = await start_member(nursery, cluster, two, group_instance_id="i-1")
        await two.until(lambda: bool(two.sessions))
        await first.ended.wait()
        assert "FENCED_INSTANCE_ID" in str(first.error)
        assert not second.ended.is_set()


# -- bad input ------------------------------------------------------------------------------------------


async def test_unknown_topic_fails_after_the_bootstrap_timeout_and_says_what_to_do(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        began = trio.current_time()
        member = await start_member(nursery, cluster, Recorder(), topics=("orderz",), bootstrap_timeout=5.0)
        await member.ended.wait()
        assert isinstance(member.error, UnknownTopicError)
        assert "'orderz'" in str(member.error)
        assert "create the topic, or correct its name" in str(member.error)
        assert trio.current_time() - began == pytest.approx(5.0)


async def test_topic_created_while_the_group_waits_is_consumed(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler, topics=("late",), bootstrap_timeout=30.0)
        await trio.sleep(10)
        cluster.create_topic("late", 1)
        fill(cluster, 2, topic="late")
        await handler.received(2)


async def test_no_broker_at_the_address_names_it_and_the_cause(autojump_clock: MockClock) -> None:
    async with orders() as cluster:
        group = ConsumerGroup(["nowhere:9092"], "g", Config(bootstrap_timeout=3.0), transport=cluster.transport)
        async with group:
            with pytest.raises(ConnectError, match="nowhere:9092"):
                await group.consume(["orders"], Recorder())


@pytest.mark.parametrize("topics", ["orders", [], [""], [1]])
async def test_topics_that_cannot_be_are_refused(autojump_clock: MockClock, topics: object) -> None:
    async with orders() as cluster:
        async with ConsumerGroup(cluster.bootstrap_servers, "g", transport=cluster.transport) as group:
            with pytest.raises(ConfigError, match="non-empty list of topic names"):
                await group.consume(topics, Recorder())  # type: ignore[arg-type]


@pytest.mark.parametrize("servers", [[], ["localhost"], ["localhost:0"], ["localhost:x"], [":9092"], ["h:70000"]])
async def test_bootstrap_address_that_cannot_be_is_refused(autojump_clock: MockClock, servers: list[str]) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        ConsumerGroup(servers, "g")


async def test_empty_group_id_is_refused(autojump_clock: MockClock) -> None:
    with pytest.raises(ConfigError, match="group_id"):
        ConsumerGroup(["localhost:9092"], "")


async def test_consume_outside_its_block_says_so(autojump_clock: MockClock) -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await ConsumerGroup(["localhost:9092"], "g").consume(["orders"], Recorder())


async def test_second_consume_at_the_same_time_is_refused(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        with pytest.raises(RuntimeError, match="running already"):
            await member.group.consume(["orders"], Recorder())


async def test_closed_group_consumes_no_more(autojump_clock: MockClock) -> None:
    async with orders() as cluster:
        async with ConsumerGroup(cluster.bootstrap_servers, "g", transport=cluster.transport) as group:
            group.close_nowait()
            handler = Recorder()
            await group.consume(["orders"], handler)
            assert handler.calls == []


async def test_close_while_the_cluster_cannot_be_reached_returns_at_once(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        member = await start_member(nursery, cluster, Recorder(), topics=("nothing",), bootstrap_timeout=100.0)
        await trio.sleep(5)
        began = trio.current_time()
        await member.close()
        assert trio.current_time() == began
        assert member.error is None


async def test_events_tell_the_way_into_the_group(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 1)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(1)
        await member.close()
        states = [e.after for e in member.seen(MembershipChanged)]
        assert states == [
            "PREPARING_REBALANCE", "COMPLETING_REBALANCE", "STABLE", "LEAVING", "UNJOINED",
        ]  # fmt: skip
        assert member.seen(SessionStarted)[0].assignment == {"orders": (0,)}
        assert member.seen(Committed)[-1].offsets == {TopicPartition("orders", 0): 1}
