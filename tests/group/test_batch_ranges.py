"""The ranges [from_offset, next_offset) of a claim's batches: contiguous, unless the position was moved."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from sarameya import (
    Claim,
    Config,
    Consumer,
    ConsumerGroupHandler,
    ConsumerInterceptor,
    InterceptorError,
    Message,
    MessageBatch,
    Session,
    Stream,
    StreamHandler,
)
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.embedded import EmbeddedCluster
from sarameya.group.delivery.interceptors import Interceptors
from sarameya.observe import Observers, OffsetReset
from sarameya.protocol.fetch.byte_budget import ByteBudget
from sarameya.protocol.fetch.fetch_cursor import FetchCursor, Records
from sarameya.protocol.records.batch_codec import RawBatch
from tests.group.kit import deadline, eventually, fill, orders, start_member
from tests.group.test_claim_batches import PARTITION, record_batches

Range = tuple[int, int]


def claim_at(position: int, interceptors: Interceptors | None = None) -> Claim:
    consumer = PartitionConsumer(FetchCursor(PARTITION, position), 1, ByteBudget(2**20).open())
    return Claim(consumer, Config(), interceptors.consume if interceptors else None)


def deliver(claim: Claim, raws: Sequence[RawBatch], aborted: frozenset[int] = frozenset()) -> None:
    """Deliver batches to a claim as a fetch from its position does."""
    cursor = claim._consumer.cursor
    records = Records(tuple(raws), sum(raw.size_bytes for raw in raws), cursor.position, aborted)
    cursor.position = raws[-1].next_offset
    claim._consumer.deliver(records)


def range_of(batch: MessageBatch) -> Range:
    return batch.from_offset, batch.next_offset


@given(
    sizes=st.lists(st.sampled_from([1, 3, 300, 1200]), min_size=2, max_size=8),
    hidden=st.sets(st.integers(0, 7), max_size=4),
    skipped=st.integers(0, 500),
    fetches=st.integers(1, 4),
    steps=st.lists(st.sampled_from(["batch", "message", "messages", "look", "pause"]), min_size=1, max_size=30),
    ends=st.booleans(),
)
def test_ranges_are_contiguous_however_a_claim_is_read(
    sizes: list[int], hidden: set[int], skipped: int, fetches: int, steps: list[str], ends: bool
) -> None:
    """Reads messages, batches, or both in turn, before and after pauses, over records that are hidden."""
    steps = [*steps, "end"] if ends else steps
    raws = record_batches(sizes)
    position = min(skipped, raws[0].last_offset)
    aborted = frozenset(raws[place].base_offset for place in hidden if place < len(raws) - 1)
    ranges: list[Range] = []
    got: list[int] = []

    def check_range(messages: Sequence[Message], offsets: Range) -> None:
        assert offsets[0] <= messages[0].offset
        assert messages[-1].offset < offsets[1]
        got.extend(message.offset for message in messages)
        ranges.append(offsets)

    async def main() -> None:
        claim = claim_at(position)
        each = -(-len(raws) // fetches)
        left = [raws[place : place + each] for place in range(0, len(raws), each)]
        script = iter(steps)
        while True:
            step = next(script, "batch")
            if step == "pause":
                claim._set_paused(True)
                assert not claim._advance_nowait(by_columns=True)
                assert claim.from_offset == expected_start()
                claim._set_paused(False)
            elif step == "end":
                claim._end()
                assert claim.from_offset == expected_start()
                return
            elif not claim._advance_nowait(by_columns=step == "batch"):
                if not left:
                    return
                deliver(claim, left.pop(0), aborted)
            elif step == "look":
                pass  # a batch is ready, but no message of it is taken
            elif step == "batch":
                batch = claim._take_rest()
                check_range(batch.messages, range_of(batch))
            else:
                for _ in range(1 if step == "message" else 200):
                    for message in claim._present.left:
                        check_range([message], (expected_start(), claim.position))
                        break
            assert claim.from_offset == expected_start()

    def expected_start() -> int:
        return ranges[-1][1] if ranges else position

    trio.run(main)
    if "end" in steps:
        return
    assert ranges[0][0] == position
    assert all(before[1] == after[0] for before, after in pairwise(ranges))
    assert ranges[-1][1] == raws[-1].next_offset
    shown = [raw for raw in raws if raw.base_offset not in aborted]
    assert got == [o for raw in shown for o in range(raw.base_offset, raw.next_offset) if o >= position]


async def test_batch_created_by_hand_starts_at_its_first_message() -> None:
    message = Message("orders", 0, 7, 0, 0, None, b"x")  # type: ignore[arg-type]
    assert MessageBatch("orders", 0, [message], 9).from_offset == 7


async def test_range_after_a_raising_interceptor_is_read_again() -> None:
    class Once(ConsumerInterceptor):
        def on_consume(self, batch: MessageBatch) -> Sequence[Message] | None:
            ranges.append(range_of(batch))
            if len(ranges) == 1:
                raise ValueError("not now")
            return list(batch)

    ranges: list[Range] = []
    claim = claim_at(2, Interceptors([Once()], Observers([])))
    deliver(claim, record_batches([5, 5]))
    with pytest.raises(InterceptorError):
        claim._advance_nowait(by_columns=True)
    assert claim._advance_nowait(by_columns=True)
    assert [range_of(claim._take_rest()), *ranges] == [(2, 10)] * 3


class ByBatches(ConsumerGroupHandler):
    """A handler that keeps and marks the range of each batch."""

    def __init__(self) -> None:
        self.ranges: list[Range] = []
        self.offsets: list[int] = []
        self.claims: list[Claim] = []

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        self.claims.append(claim)
        async for batch in claim.batches():
            self.ranges.append(range_of(batch))
            self.offsets += [message.offset for message in batch]
            session.mark_batch(batch)

    @property
    def is_contiguous(self) -> bool:
        return all(before[1] == after[0] for before, after in pairwise(self.ranges))


def transactions(cluster: EmbeddedCluster) -> None:
    """Write these offsets: 0 aborted, 1 its marker, 2 plain, 3 aborted, 4 its marker."""
    for value in (b"plain", None):
        cluster.produce_transactional("orders", 0, b"aborted", producer_id=1)
        cluster.end_transaction(1, commit=False)
        if value:
            cluster.produce("orders", 0, value)


async def test_range_covers_aborted_records_of_an_earlier_fetch(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = ByBatches()
        await start_member(nursery, cluster, handler, isolation_level="read_committed")
        transactions(cluster)
        await eventually(lambda: bool(handler.claims) and handler.claims[0].position == 5)
        assert handler.ranges == [(0, 3)]
        for _ in range(3):  # fetched one by one; the aborted records at the end of each yield nothing
            transactions(cluster)
            await trio.sleep(1)
        assert handler.offsets == [2, 7, 12, 17]
        assert handler.ranges == [(0, 3), (3, 8), (8, 13), (13, 18)]
        assert handler.claims[0].position == 20


async def test_range_covers_records_removed_by_compaction(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        for _ in range(4):
            cluster.produce_many("orders", 0, [(b"k", b"v")] * 5)
        cluster.log("orders", 0).remove_batches({0, 2})
        handler = ByBatches()
        await start_member(nursery, cluster, handler)
        await eventually(lambda: len(handler.offsets) == 10)
        cluster.produce_many("orders", 0, [(b"k", b"v")] * 5)
        await eventually(lambda: len(handler.offsets) == 15)
        assert handler.offsets == [*range(5, 10), *range(15, 25)]
        assert (handler.ranges[0][0], handler.ranges[-1]) == (0, (20, 25))
        assert handler.is_contiguous


class FromTen(ByBatches):
    async def start_offset(self, partition: object, committed: object) -> int | None:
        return 10


async def test_range_after_a_reset_starts_at_the_new_position(autojump_clock: MockClock) -> None:
    """Retention overtakes the position: the next batch does not start where the last one ended."""
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 20)
        handler = FromTen()
        member = await start_member(nursery, cluster, handler, offset_out_of_range="oldest")
        await eventually(lambda: len(handler.offsets) == 10)
        member.group.pause_all()
        await trio.sleep(2)  # the pending fetch is answered
        fill(cluster, 20)
        cluster.delete_records("orders", 0, 30)
        await trio.sleep(5)
        member.group.resume_all()
        await eventually(lambda: bool(member.seen(OffsetReset)) and len(handler.offsets) == 20)
        moved = [pair for pair in pairwise(handler.ranges) if pair[0][1] != pair[1][0]]
        assert [(before[1], after[0]) for before, after in moved] == [(20, 30)]
        assert handler.ranges[0][0] == 10
        assert handler.ranges[-1][1] == 40


class Streamed(StreamHandler):
    streams = 1

    def __init__(self) -> None:
        self.ranges: dict[int, list[Range]] = {}

    async def consume_stream(self, session: Session, stream: Stream) -> None:
        async for batch in stream.batches():
            self.ranges.setdefault(batch.partition, []).append(range_of(batch))


async def test_ranges_of_a_stream_are_contiguous_for_each_partition(autojump_clock: MockClock) -> None:
    async with orders(3) as cluster, deadline() as nursery:
        handler = Streamed()
        await start_member(nursery, cluster, handler)
        for _ in range(5):
            for number in range(3):
                fill(cluster, 7, number)
            await trio.sleep(1)
        for number in range(3):
            ranges = handler.ranges[number]
            assert (ranges[0][0], ranges[-1][1]) == (0, 35)
            assert all(before[1] == after[0] for before, after in pairwise(ranges))


async def test_ranges_of_a_consumer_start_at_the_requested_offset(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        fill(cluster, 20)
        async with (
            Consumer(cluster.bootstrap_servers, transport=cluster.transport) as consumer,
            consumer.consume_partition("orders", 0, 5) as claim,
        ):
            ranges: list[Range] = []
            async for message in claim:
                assert message.offset == 5
                break
            async for batch in claim.batches():
                ranges.append(range_of(batch))
                if batch.next_offset == 20:
                    break
            assert ranges[0][0] == 6
            assert all(before[1] == after[0] for before, after in pairwise(ranges))
