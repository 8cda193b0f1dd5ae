"""A claim's batches: record batches joined into columns, compared with the messages of its iteration."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from sarameya.config import Config
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.errors import CorruptRecordError
from sarameya.group.claim import Claim
from sarameya.message_batch import MessageBatch
from sarameya.model import Message, TopicPartition
from sarameya.protocol.fetch.byte_budget import ByteBudget
from sarameya.protocol.fetch.fetch_cursor import FetchCursor, Records
from sarameya.protocol.records.batch_codec import RawBatch, build, split

PARTITION = TopicPartition("orders", 0)


def record_batches(sizes: Sequence[int], epochs: Sequence[int] = ()) -> list[RawBatch]:
    """Return consecutive record batches of the given sizes, with leader epoch 0 or the given ones."""
    raws: list[RawBatch] = []
    offset = 0
    for place, size in enumerate(sizes):
        records = [(1000 + number, b"k", b"%d" % (offset + number), ()) for number in range(size)]
        epoch = epochs[place] if epochs else 0
        raws += split(build(records, base_offset=offset, leader_epoch=epoch), PARTITION, offset)
        offset += size
    return raws


def claim_of(raws: Sequence[RawBatch], position: int = 0, aborted: frozenset[int] = frozenset()) -> Claim:
    consumer = PartitionConsumer(FetchCursor(PARTITION, position), 1, ByteBudget(2**20).open())
    claim = Claim(consumer, Config())
    consumer.deliver(Records(tuple(raws), sum(raw.size_bytes for raw in raws), position, aborted))
    return claim


async def all_batches(claim: Claim) -> list[MessageBatch]:
    """Return the batches that exist, without waiting for more."""
    batches: list[MessageBatch] = []
    async for batch in claim.batches():
        batches.append(batch)
        if claim.position == claim.high_water_mark:
            break
    return batches


def read(raws: Sequence[RawBatch], position: int = 0, aborted: frozenset[int] = frozenset()) -> list[MessageBatch]:
    async def main() -> list[MessageBatch]:
        claim = claim_of(raws, position, aborted)
        claim._consumer.cursor.high_water_mark = raws[-1].next_offset
        return await all_batches(claim)

    return trio.run(main)


def read_messages(raws: Sequence[RawBatch], position: int, aborted: frozenset[int]) -> list[Message]:
    async def main() -> list[Message]:
        claim = claim_of(raws, position, aborted)
        messages: list[Message] = []
        while claim._advance_nowait():
            messages += claim._take_rest().messages
        return messages

    return trio.run(main)


@given(
    sizes=st.lists(st.integers(1, 700), min_size=1, max_size=8),
    epochs=st.lists(st.integers(0, 2), min_size=8, max_size=8),
    hidden=st.sets(st.integers(0, 7), max_size=3),
    skipped=st.integers(0, 500),
)
def test_batches_have_the_same_messages_as_iteration(
    sizes: list[int], epochs: list[int], hidden: set[int], skipped: int
) -> None:
    raws = record_batches(sizes, sorted(epochs))
    # The last one is visible, so that the reader has something to wait for.
    aborted = frozenset(raws[place].base_offset for place in hidden if place < len(raws) - 1)
    position = min(skipped, raws[0].last_offset)
    batches = read(raws, position, aborted)
    assert [message for batch in batches for message in batch] == read_messages(raws, position, aborted)
    assert batches[-1].next_offset == raws[-1].next_offset
    for batch, following in pairwise(batches):
        assert batch.next_offset <= following.first_offset
    assert sum(batch.size_bytes for batch in batches) <= sum(raw.size_bytes for raw in raws)
    assert {message.leader_epoch for batch in batches for message in batch} <= set(epochs)
    assert all({message.leader_epoch for message in batch} == {batch.leader_epoch} for batch in batches)


def test_small_record_batches_are_joined() -> None:
    assert [len(batch) for batch in read(record_batches([1500] * 6))] == [4500, 4500]
    assert [len(batch) for batch in read(record_batches([10] * 6))] == [60]
    assert [len(batch) for batch in read(record_batches([4000, 4000]))] == [4000, 4000]


def test_new_leader_epoch_starts_a_new_batch() -> None:
    """The commit of a marked message contains its leader epoch (KIP-320)."""
    batches = read(record_batches([10, 10, 10], [3, 3, 4]))
    assert [(len(batch), batch.leader_epoch) for batch in batches] == [(20, 3), (10, 4)]


async def test_undecodable_batch_raises_each_time_after_good_ones() -> None:
    good, broken, following = record_batches([10, 10, 10])
    data = bytearray(broken.data)
    data[-1] ^= 1
    (broken,) = split(bytes(data), PARTITION, 10)
    batches = claim_of([good, broken, following]).batches()
    assert [message.offset for message in await anext(batches)] == list(range(10))
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match="orders-0 at offset 10"):
            await anext(batches)


async def test_messages_and_batches_share_one_position() -> None:
    claim = claim_of(record_batches([10, 10, 10]))
    assert [(await anext(aiter(claim))).offset for _ in range(3)] == [0, 1, 2]
    assert [message.offset for message in await anext(claim.batches())] == list(range(3, 10)), "the rest of its batch"
    assert len(await anext(claim.batches())) == 20
    assert claim.position == 30
