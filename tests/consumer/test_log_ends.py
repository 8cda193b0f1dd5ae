"""Log ends of partitions that are not fetched: the broker's values, and the cost of requests. Virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from sarameya import Activity, Claim, ConsumerGroupHandler, ErrorCode, Message, PartitionStatus, Session, TopicPartition
from sarameya.consumer.log_ends import EVERY
from sarameya.embedded import EmbeddedCluster
from sarameya.embedded.apis import Call
from sarameya.protocol.versions import Api
from tests.consumer.kit import on_request
from tests.group.kit import Recorder, Running, deadline, fill, orders, start_member

ZERO = TopicPartition("orders", 0)
SMALL = {"fetch_max_partition_bytes": 1000}


class Hangs(ConsumerGroupHandler):
    """Hangs in a message of partition 0 until `may_continue`, and holds `held_bytes` meanwhile."""

    def __init__(self, held_bytes: int = 0) -> None:
        self.taken = trio.Event()
        self.may_continue = trio.Event()
        self._held_bytes = held_bytes

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for message in claim:
            assert isinstance(message, Message)
            if claim.partition == 0 and not self.taken.is_set():
                claim.hold(self._held_bytes)
                self.taken.set()
                await self.may_continue.wait()
                claim.release(self._held_bytes)
            session.mark_message(message)


def status_of_zero(member: Running) -> PartitionStatus:
    return next(one for one in member.group.status().partitions if one.partition == ZERO)


def end_of(cluster: EmbeddedCluster) -> int:
    return cluster.log("orders", 0).end_offset


def lookups(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[int]]:
    """Return a list that gets the partitions of each ListOffsets request."""
    seen: list[frozenset[int]] = []

    def note(call: Call) -> None:
        seen.append(frozenset(part.partition_index for topic in call.body.topics for part in topic.partitions))

    on_request(monkeypatch, Api.LIST_OFFSETS, note)
    return seen


Hold = Callable[[Running], None]


@pytest.mark.parametrize(
    ("why", "options", "held_bytes"),
    [
        (Activity.IN_HANDLER, {"max_processing_time": 1000.0}, 0),
        (Activity.BACKPRESSURED, {}, 0),
        (Activity.PAUSED, {}, 0),
        (Activity.IN_HANDLER, {"max_processing_time": 1000.0, "fetch_buffer_bytes": 2**20}, 2**20),
    ],
    ids=["full", "backpressured", "paused", "no room"],
)
async def test_lag_of_an_unfetched_partition_is_looked_up(
    autojump_clock: MockClock, why: Activity, options: dict[str, float], held_bytes: int
) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 50)
        handler = Hangs(held_bytes)
        member = await start_member(nursery, cluster, handler, **SMALL, **options)
        await handler.taken.wait()
        if why is Activity.PAUSED:
            member.group.pause([ZERO])
        await trio.sleep(5)
        for _ in range(3):
            for _ in range(30):
                cluster.produce_many("orders", 0, [(None, b"x" * 100)] * 10)
            await trio.sleep(EVERY + 1)
            status = status_of_zero(member)
            assert status.activity is why
            assert (status.high_water_mark, status.lag) == (end_of(cluster), end_of(cluster) - status.position)
        member.group.resume([ZERO])
        handler.may_continue.set()
        await trio.sleep(60)
        assert (status_of_zero(member).position, status_of_zero(member).lag) == (end_of(cluster), 0)
        await member.close()


async def test_only_unfetched_partitions_are_looked_up(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with orders(6, brokers=2) as cluster, deadline() as nursery:
        for partition in range(6):
            fill(cluster, 50, partition)
        handler = Hangs()
        handler.may_continue.set()
        member = await start_member(nursery, cluster, handler)
        await trio.sleep(5)
        requests = lookups(monkeypatch)
        await trio.sleep(100)
        assert requests == []
        member.group.pause([ZERO, TopicPartition("orders", 1), TopicPartition("orders", 2)])
        await trio.sleep(10 * EVERY)
        leaders = {one.broker for one in member.group.status().partitions if one.partition.partition < 3}
        assert len(leaders) == 2
        assert sum(Counter(requests).values()) <= 2 * 10, "one request per leader each time"
        assert frozenset.union(*requests) == {0, 1, 2}
        await member.close()


async def test_failed_lookup_delays_no_other_leader(
    autojump_clock: MockClock,
) -> None:
    async with orders(2, brokers=2) as cluster, deadline() as nursery:
        other = TopicPartition("orders", 1)
        fill(cluster, 50, 0)
        fill(cluster, 50, 1)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(100)
        member.group.pause([ZERO, other])
        await trio.sleep(2)
        fill(cluster, 20, 0)
        fill(cluster, 20, 1)
        leader = status_of_zero(member).broker
        cluster.fail_next(Api.LIST_OFFSETS, ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, broker_id=leader)
        cluster.drop_next(Api.LIST_OFFSETS, 1, hang_up=False, broker_id=leader)
        before = status_of_zero(member)
        await trio.sleep(2 * EVERY + 5)
        after = status_of_zero(member)
        assert (after.high_water_mark, after.lag) == (before.high_water_mark, before.lag) == (50, 0)
        assert [one.lag for one in member.group.status().partitions] == [0, 20]
        await trio.sleep(member.group.config.request_timeout + 2 * EVERY)
        assert [one.lag for one in member.group.status().partitions] == [20, 20]
        assert handler.calls.count("setup") == 1
        await member.close()


async def test_log_end_of_a_fetch_counts_after_a_truncation(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        fill(cluster, 50)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, offset_out_of_range="oldest")
        await handler.received(50)
        member.group.pause([ZERO])
        fill(cluster, 50)
        await trio.sleep(3 * EVERY)
        assert status_of_zero(member).high_water_mark == 100
        cluster.truncate("orders", 0, 60)
        member.group.resume([ZERO])
        await handler.received(60)
        await trio.sleep(2)
        assert (status_of_zero(member).high_water_mark, status_of_zero(member).lag) == (60, 0)
        await member.close()


@pytest.mark.parametrize(("level", "lag"), [("read_committed", 2), ("read_uncommitted", 4)])
async def test_looked_up_lag_follows_the_isolation_level(autojump_clock: MockClock, level: str, lag: int) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        fill(cluster, 3)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, isolation_level=level)
        await handler.received(3)
        member.group.pause([ZERO])
        await trio.sleep(2)
        fill(cluster, 2)
        cluster.produce_transactional("orders", 0, b"open", producer_id=1)
        fill(cluster, 1)
        await trio.sleep(2 * EVERY)
        assert (status_of_zero(member).high_water_mark, status_of_zero(member).lag) == (7, lag)
        await member.close()
