"""Slow handlers: backpressure, its events and its times. Over the in-memory cluster under virtual time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Activity,
    Claim,
    ConsumerGroupHandler,
    Message,
    PartitionStatus,
    Session,
    Stream,
    StreamHandler,
    TopicPartition,
)
from sarameya.observe import BackpressureEnded, ClaimEnded, PartitionBackpressured
from tests.group.kit import Recorder, Running, deadline, eventually, fill, orders, start_member
from tests.telemetry.test_prometheus import registry_of, samples, value

PARTITION = TopicPartition("orders", 0)


def changes(member: Running) -> list[type[object]]:
    return [type(event) for event in member.events if isinstance(event, PartitionBackpressured | BackpressureEnded)]


async def test_backpressure_is_reported_once_and_its_end_too(
    autojump_clock: MockClock,
) -> None:
    release = trio.Event()

    async def wait(session: Session, claim: Claim, message: Message) -> None:
        await release.wait()

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 100)
        handler = Recorder(wait)
        began = trio.current_time()
        member = await start_member(nursery, cluster, handler, fetch_max_partition_bytes=1000, max_processing_time=1.0)
        while not changes(member):
            await trio.sleep(0.01)
        assert 1.0 <= trio.current_time() - began <= 2.1, "the second check, after one to two times max_processing_time"
        (event,) = member.seen(PartitionBackpressured)
        assert event.partition == PARTITION
        assert 0 < event.buffered <= 7000, "including decoded messages"
        fill(cluster, 100)
        await trio.sleep(60)
        assert changes(member) == [PartitionBackpressured]
        release.set()
        await handler.received(200)
        assert handler.offsets("orders", 0) == list(range(200))
        assert changes(member) == [PartitionBackpressured, BackpressureEnded]
        (ended,) = member.seen(BackpressureEnded)
        assert 60 <= ended.seconds < 62


async def test_late_fetch_response_is_no_new_backpressure(autojump_clock: MockClock) -> None:
    release = trio.Event()

    async def wait(session: Session, claim: Claim, message: Message) -> None:
        await release.wait()

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 1)
        handler = Recorder(wait)
        member = await start_member(nursery, cluster, handler, max_processing_time=0.1, fetch_max_wait=5.0)
        await eventually(lambda: bool(handler.messages))
        await trio.sleep(0.5)
        fill(cluster, 1)
        await eventually(lambda: bool(changes(member)))
        fill(cluster, 1)
        await trio.sleep(2)
        assert changes(member) == [PartitionBackpressured]
        release.set()
        await handler.received(3)
        assert changes(member) == [PartitionBackpressured, BackpressureEnded]


class SlowStreamHandler(StreamHandler):
    """Reads one stream, message by message, and waits for `wait` after each."""

    def __init__(self, wait: trio.Event | None = None) -> None:
        self.taken = 0
        self._wait = wait

    async def consume_stream(self, session: Session, stream: Stream) -> None:
        async for _ in stream:
            self.taken += 1
            await trio.sleep(0.001)
            if self._wait is not None:
                await self._wait.wait()


async def test_partition_waiting_in_a_stream_is_not_backpressured(
    autojump_clock: MockClock,
) -> None:
    """Each partition is read for 0.1 s: each of twenty waits far longer than max_processing_time."""
    async with orders(20) as cluster, deadline() as nursery:
        for partition in range(20):
            for _ in range(10):
                cluster.produce_many("orders", partition, [(None, b"x" * 50)] * 100)
        handler = SlowStreamHandler()
        member = await start_member(nursery, cluster, handler, fetch_max_partition_bytes=20_000)
        await eventually(lambda: handler.taken == 20_000)
        assert not changes(member)


async def test_stalled_stream_backpressures_all_its_partitions(autojump_clock: MockClock) -> None:
    release = trio.Event()
    async with orders(3) as cluster, deadline() as nursery:
        for partition in range(3):
            fill(cluster, 20, partition)
        handler = SlowStreamHandler(release)
        member = await start_member(nursery, cluster, handler, fetch_max_partition_bytes=500)
        await eventually(lambda: len(changes(member)) == 3)
        release.set()
        await eventually(lambda: handler.taken == 60)
        assert changes(member) == [PartitionBackpressured] * 3 + [BackpressureEnded] * 3


async def test_slow_but_steady_handler_is_not_backpressured(autojump_clock: MockClock) -> None:
    async def slowly(session: Session, claim: Claim, message: Message) -> None:
        await trio.sleep(0.9)

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 100)
        handler = Recorder(slowly)
        member = await start_member(nursery, cluster, handler, fetch_max_partition_bytes=500, max_processing_time=1.0)
        await handler.received(50)
        assert not changes(member)


async def test_paused_claim_is_not_backpressured(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        fill(cluster, 1)
        await handler.received(1)
        member.group.pause([PARTITION])
        fill(cluster, 50)
        await trio.sleep(30)
        assert not changes(member)
        member.group.resume([PARTITION])
        await handler.received(51)


async def test_backpressured_partition_restarts_on_another_member(autojump_clock: MockClock) -> None:
    class Stuck(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for _ in claim:
                await trio.sleep_forever()

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 100)
        member = await start_member(nursery, cluster, Stuck(), claim_grace=1.0, fetch_max_partition_bytes=500)
        while not changes(member):
            await trio.sleep(0.1)
        await member.close()
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.received(100)
        assert handler.offsets("orders", 0) == list(range(100))


async def test_budget_holds_for_many_stuck_partitions(autojump_clock: MockClock) -> None:
    async def wait(session: Session, claim: Claim, message: Message) -> None:
        await release.wait()

    release = trio.Event()
    async with orders(30) as cluster, deadline() as nursery:
        for partition in range(30):
            for _ in range(20):
                cluster.produce("orders", partition, b"x" * 1000)
        handler = Recorder(wait)
        member = await start_member(
            nursery, cluster, handler, fetch_max_partition_bytes=10_000, fetch_buffer_bytes=300_000, fetch_max_wait=0.05
        )
        await trio.sleep(30)
        # A broker sends the first batch of a response whole, even above the limit; each claim has a decoded batch.
        assert 100_000 < member.group.buffered_bytes <= 300_000 + 1200 + 30 * 1400
        assert len(handler.messages) == 30, "every claim has received its first message"
        release.set()
        await handler.received(600)
        for partition in range(30):
            assert handler.offsets("orders", partition) == list(range(20))
        await trio.sleep(1)
        assert member.group.buffered_bytes <= 30 * 2600


async def test_backpressure_time_is_reported_live_and_summed(autojump_clock: MockClock) -> None:
    releases = [trio.Event(), trio.Event()]
    taken: list[int] = []

    async def wait(session: Session, claim: Claim, message: Message) -> None:
        taken.append(message.offset)
        if message.offset in (0, 100):
            await releases[message.offset // 100].wait()

    async with orders() as cluster, deadline() as nursery:
        member = await start_member(nursery, cluster, Recorder(wait), fetch_max_partition_bytes=1000)
        past = 0.0
        for period in (1, 2):
            fill(cluster, 100)
            await eventually(lambda count=period: len(member.seen(PartitionBackpressured)) == count)  # type: ignore[misc]
            began = trio.current_time()
            await trio.sleep(29)
            current = status(member)
            elapsed = trio.current_time() - began
            assert elapsed <= current.backpressured_seconds <= elapsed + 0.2
            assert current.backpressure_seconds == pytest.approx(past + current.backpressured_seconds)
            releases[period - 1].set()
            await eventually(lambda count=period: len(taken) == count * 100)  # type: ignore[misc]
            past = sum(event.seconds for event in member.seen(BackpressureEnded))
            assert (status(member).backpressured_seconds, status(member).backpressure_seconds) == (0, past)
        await member.close()
        assert member.group.meters.topics["orders"].backpressure_seconds == past >= 58


def status(member: Running) -> PartitionStatus:
    (partition,) = member.group.status().partitions
    return partition


async def test_backpressure_counts_until_its_claim_ends(autojump_clock: MockClock) -> None:
    """The claim is being revoked, and its handler still hangs."""

    async def hang(session: Session, claim: Claim, message: Message) -> None:
        await trio.sleep_forever()

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 100)
        member = await start_member(nursery, cluster, Recorder(hang), claim_grace=5.0, fetch_max_partition_bytes=500)
        await eventually(lambda: bool(changes(member)))
        began = trio.current_time()
        await trio.sleep(29)
        member.group.close_nowait()
        await trio.sleep(3)
        current = status(member)
        assert current.activity is Activity.REVOKING
        assert 32 <= current.backpressured_seconds <= trio.current_time() - began + 0.2
        found = samples(registry_of(member.group))
        assert value(found, "sarameya_partition_backpressured_seconds", topic="orders") == current.backpressured_seconds
        assert value(found, "sarameya_backpressure_seconds_total", topic="orders") == current.backpressured_seconds
        await member.ended.wait()
        assert changes(member) == [PartitionBackpressured, BackpressureEnded]
        (backpressure,), (ended,) = member.seen(BackpressureEnded), member.seen(ClaimEnded)
        assert 34 <= backpressure.seconds == ended.backpressure_seconds < 36
        assert member.group.meters.topics["orders"].backpressure_seconds == backpressure.seconds
