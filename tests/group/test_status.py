"""The status of a member, compared with what the test makes it do. In-memory cluster, virtual time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Activity,
    Claim,
    ConsumerGroupHandler,
    GroupStatus,
    Landed,
    LandingStarted,
    Message,
    PartitionStatus,
    Session,
)
from sarameya import TopicPartition as TP
from sarameya.group.delivery.read_timestamps import ReadTimestamps
from sarameya.meters import REBALANCE_REASONS
from sarameya.protocol.membership.states import State
from sarameya.protocol.versions import Api
from tests.group.kit import Recorder, deadline, eventually, orders, start_member

ZERO = TP("orders", 0)


def zero(status: GroupStatus) -> PartitionStatus:
    return next(one for one in status.partitions if one.partition == ZERO)


async def test_status_has_the_state_and_positions_of_a_member(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        cluster.produce_many("orders", 0, [(None, b"x")] * 10)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, autocommit_interval=1.0)
        await handler.received(10)
        await trio.sleep(5)
        status = member.group.status()
        assert status.state == State.STABLE.name
        assert 4 < status.seconds <= 6
        (described,) = (one.member_id for one in cluster.describe_group("g").members)
        assert (status.member_id, status.generation) == (described, cluster.describe_group("g").generation)
        assert (status.is_leader, status.assignor, status.coordinator) == (True, "range", 0)
        assert [one.partition for one in status.partitions] == [ZERO, TP("orders", 1)]
        one = zero(status)
        assert (one.activity, one.position, one.high_water_mark, one.lag) == (Activity.FETCHING, 10, 10, 0)
        assert (one.marked, one.committed, one.broker) == (10, 10, 0)
        assert 4 < one.seconds <= 6
        assert 0 <= one.asked_seconds <= 1
        assert (one.buffered_bytes, status.buffered_bytes) == (0, 0)
        assert status.budget_bytes == member.group.config.fetch_buffer_bytes
        await member.close()
        assert member.group.status() == GroupStatus(group="g", state="closed")


class Slow(ConsumerGroupHandler):
    """A handler that waits with each message until `go_on` is set."""

    def __init__(self) -> None:
        self.taken = trio.Event()
        self.go_on = trio.Event()

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for message in claim:
            assert isinstance(message, Message)
            self.taken.set()
            await self.go_on.wait()
            session.mark_message(message)


async def test_status_shows_how_long_a_handler_is_busy(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        cluster.produce_many("orders", 0, [(None, b"x" * 1000)] * 3)
        handler = Slow()
        member = await start_member(nursery, cluster, handler, max_processing_time=10.0)
        await handler.taken.wait()
        cluster.produce_many("orders", 0, [(None, b"x" * 1000)] * 3)
        await trio.sleep(5)
        one = zero(member.group.status())
        assert (one.activity, round(one.seconds), one.position) == (Activity.IN_HANDLER, 5, 1)
        assert one.buffered_bytes > 3000
        await trio.sleep(30)
        assert zero(member.group.status()).activity is Activity.BACKPRESSURED
        member.group.pause([ZERO])
        await trio.sleep(2)
        one = zero(member.group.status())
        assert (one.activity, round(one.seconds)) == (Activity.PAUSED, 2)
        member.group.resume([ZERO])
        member.group.close_nowait()
        await trio.sleep(3)
        one = zero(member.group.status())
        assert (one.activity, round(one.seconds)) == (Activity.REVOKING, 3)
        handler.go_on.set()
        await member.ended.wait()


@pytest.mark.parametrize("bound", [None, 1000])
async def test_status_without_a_leader_counts_attempts(autojump_clock: MockClock, bound: int | None) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, retry_max_attempts=bound)
        await trio.sleep(5)
        leader = zero(member.group.status()).broker
        assert leader >= 0
        await cluster.stop_broker(leader)
        await trio.sleep(5)
        one = zero(member.group.status())
        assert one.activity is Activity.RETRYING
        assert one.attempt == 1  # the metadata request that would return the leader is itself retried
        assert one.attempts == (bound or 0)
        assert one.reason
        assert one.broker == -1
        await cluster.start_broker(leader)
        await trio.sleep(10)
        one = zero(member.group.status())
        assert (one.activity, one.attempt, one.attempts, one.reason) == (Activity.FETCHING, 0, 0, "")
        assert one.broker == leader
        await member.close()


class Held(ConsumerGroupHandler):
    """A handler whose `start_offset` takes long, and which then holds all that it reads."""

    async def start_offset(self, partition: TP, committed: object) -> int:
        await trio.sleep(20)
        return 0

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for batch in claim.batches():
            claim.hold(sum(len(message.value or b"") for message in batch))


async def test_status_of_a_starting_partition_and_one_without_room(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        for _ in range(40):
            cluster.produce_many("orders", 0, [(None, b"x" * 50_000)] * 4)
        options = {"fetch_buffer_bytes": 2**21, "fetch_max_partition_bytes": 2**18}
        member = await start_member(nursery, cluster, Held(), **options)
        await trio.sleep(10)
        assert zero(member.group.status()) == PartitionStatus(partition=ZERO, activity=Activity.STARTING)
        await trio.sleep(30)
        one = zero(member.group.status())
        assert one.activity is Activity.NO_ROOM
        assert 0 < one.held_bytes <= one.buffered_bytes <= member.group.status().budget_bytes
        assert one.lag > 0
        await member.close()


class Landing(ConsumerGroupHandler):
    """A handler that reports its work on each message."""

    def __init__(self) -> None:
        self.go_on = trio.Event()

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for message in claim:
            assert isinstance(message, Message)
            with claim.report.doing(Activity.LANDING, "one message"):
                session.notify(LandingStarted(partition=ZERO, from_offset=message.offset, to_offset=message.offset + 1))
                await trio.sleep(5)
                with claim.report.doing(Activity.RETRYING, "the disk is full", attempt=2):
                    await self.go_on.wait()
            claim.report.landed = message.offset + 1
            session.mark_message(message)
            session.notify(
                Landed(partition=ZERO, from_offset=message.offset, to_offset=message.offset + 1, seconds=9.0)
            )


async def test_work_that_a_handler_reports_is_shown_and_counted(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        handler = Landing()
        member = await start_member(nursery, cluster, handler, max_processing_time=20.0)
        cluster.produce_many("orders", 0, [(None, b"x")])
        await eventually(lambda: bool(member.seen(LandingStarted)))
        await trio.sleep(3)
        one = zero(member.group.status())
        assert (one.activity, round(one.seconds), one.reason, one.landed) == (Activity.LANDING, 3, "one message", -1)
        await trio.sleep(6)
        one = zero(member.group.status())
        assert (one.activity, round(one.seconds), one.attempt) == (Activity.RETRYING, 4, 2)
        assert one.reason == "the disk is full"
        cluster.produce_many("orders", 0, [(None, b"x")])
        await trio.sleep(60)
        one = zero(member.group.status())
        assert (one.activity, one.reason) == (Activity.BACKPRESSURED, "retrying the disk is full")
        handler.go_on.set()
        await trio.sleep(20)
        one = zero(member.group.status())
        assert (one.activity, one.landed) == (Activity.FETCHING, 2)
        meters = member.group.meters.topics["orders"]
        assert (meters.landing_seconds.count, meters.landing_seconds.total) == (2, 18.0)
        assert meters.records == 0  # the claim has not ended yet
        await member.close()
        assert member.group.meters.topics["orders"].records == 2


async def test_status_shows_a_pending_commit(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, autocommit_interval=1.0)
        await trio.sleep(5)
        cluster.drop_next(Api.OFFSET_COMMIT, hang_up=False)
        cluster.produce_many("orders", 0, [(None, b"x")])
        await trio.sleep(5)
        assert zero(member.group.status()).activity is Activity.COMMITTING
        await eventually(lambda: zero(member.group.status()).committed == 1)
        assert zero(member.group.status()).activity is Activity.FETCHING
        await member.close()


async def test_requests_and_rebalances_of_a_member_are_metered(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        first = await start_member(nursery, cluster, Recorder())
        await trio.sleep(5)
        second = await start_member(nursery, cluster, Recorder())
        await trio.sleep(10)
        meters = first.group.meters
        assert meters.rebalances == {**dict.fromkeys(REBALANCE_REASONS, 0), "first_join": 1, "group_changed": 1}
        assert meters.rebalance_seconds.count == 2
        assert meters.requests["JoinGroup"].count >= 2
        assert {"Fetch", "SyncGroup", "Heartbeat", "Metadata", "ApiVersions"} <= meters.requests.keys()
        await second.close()
        await first.close()


class CleansUp(Recorder):
    """A handler with a long cleanup."""

    async def cleanup(self, session: Session) -> None:
        self._note("cleanup")
        await trio.sleep(8)


async def test_status_is_giving_up_until_the_session_ends(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        handler = CleansUp()
        member = await start_member(nursery, cluster, handler)
        cluster.produce_many("orders", 0, [(None, b"x")] * 3)
        await handler.received(3)
        member.group.close_nowait()
        await handler.until(lambda: handler.calls[-1] == "cleanup")
        await trio.sleep(5)
        for one in member.group.status().partitions:
            assert (one.activity, round(one.seconds)) == (Activity.REVOKING, 5)
        assert zero(member.group.status()).marked == 3
        await member.ended.wait()


class RevokesSlowly(Recorder):
    """A handler for a cooperative assignor, whose first revocation takes long."""

    def __init__(self) -> None:
        super().__init__()
        self.revoked: tuple[TP, ...] = ()

    async def partitions_revoked(self, session: Session, partitions: Sequence[TP]) -> None:
        if not self.revoked:
            self.revoked = tuple(partitions)
            await trio.sleep(8)


async def test_status_is_giving_up_only_for_revoked_partitions(
    autojump_clock: MockClock,
) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        handler = RevokesSlowly()
        options = {"rebalance_strategies": ("cooperative-sticky",)}
        member = await start_member(nursery, cluster, handler, **options)
        await handler.until(lambda: len(handler.calls) == 3)
        other = await start_member(nursery, cluster, Recorder(), **options)
        await eventually(lambda: bool(handler.revoked))
        await trio.sleep(5)
        doing = {one.partition: (one.activity, round(one.seconds)) for one in member.group.status().partitions}
        (revoked,) = handler.revoked
        assert doing.pop(revoked) == (Activity.REVOKING, 5)
        assert [activity for activity, _ in doing.values()] == [Activity.FETCHING]
        await other.close()
        await member.close()


async def test_status_distinguishes_committed_and_landed_lag(autojump_clock: MockClock) -> None:
    """The handler has landed up to offset 10, and read up to 30; it still holds the last message. The log end is 40."""

    written: dict[int, int] = {}

    def at_60_s() -> float:
        """Return the time one minute after the record at offset 10 was written."""
        return written.get(10, 0) / 1000 + 60

    class Lands(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for message in claim:
                assert isinstance(message, Message)
                written[message.offset] = message.timestamp
                if message.offset == 4:
                    session.mark_message(message)
                if message.offset == 9:
                    claim.report.landed = 10
                if message.offset == 29:
                    await trio.sleep_forever()

    async with orders(1) as cluster, deadline() as nursery:
        for _ in range(4):
            cluster.produce_many("orders", 0, [(None, b"x")] * 10)
        options = {"autocommit_interval": 1.0, "max_processing_time": 1000.0}
        member = await start_member(nursery, cluster, Lands(), wall_clock=at_60_s, **options)
        await trio.sleep(10)
        one = zero(member.group.status())
        assert (one.high_water_mark, one.position, one.committed, one.landed) == (40, 30, 5, 10)
        assert (one.lag, one.committed_lag, one.landed_lag) == (10, 35, 30)
        assert round(one.unlanded_seconds) == 60
        member.scope.cancel()
        await member.ended.wait()


async def test_age_of_the_oldest_record_is_0_when_all_is_committed(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, autocommit_interval=1.0)
        cluster.produce_many("orders", 0, [(None, b"x")] * 10)
        await handler.received(10)
        await trio.sleep(5)
        one = zero(member.group.status())
        assert (one.lag, one.committed_lag, one.landed_lag, one.unlanded_seconds) == (0, 0, -1, 0)
        await member.close()


def test_oldest_timestamp_is_of_the_first_unfinished_batch() -> None:
    read = ReadTimestamps()
    assert read.oldest(0) is None
    for start in range(0, 100_000, 10):
        read.add(start, start + 10, start)
    assert len(read._runs) <= 512
    assert read.oldest(0) == 0
    assert 49_000 <= (read.oldest(50_000) or 0) <= 50_000
    assert read.oldest(100_000) is None
    read.add(0, 10, 7)
    read.add(10, 20, 8)
    read.add(5, 12, 9)  # read again, from an earlier offset
    assert read.oldest(0) == 9
