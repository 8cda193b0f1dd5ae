"""A record batch of very many messages, which a claim decodes a slice at a time."""

from __future__ import annotations

import pytest

from sarameya import Config, CorruptRecordError, InterceptorError, MessageBatch
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.group.claim import Claim
from sarameya.group.delivery.interceptors import Intercept
from sarameya.model import TopicPartition
from sarameya.protocol.fetch.byte_budget import ByteBudget
from sarameya.protocol.fetch.fetch_cursor import FetchCursor, Records
from sarameya.protocol.records.batch_codec import build, split

PARTITION = TopicPartition("orders", 0)
BATCH = build([(0, None, b"x" * 10, ())] * 2500)


def claim_of(data: bytes, position: int = 0, intercept: Intercept | None = None) -> Claim:
    consumer = PartitionConsumer(FetchCursor(PARTITION, position), 10, ByteBudget(2**30).open())
    claim = Claim(consumer, Config(check_crcs=False), intercept)
    consumer.deliver(Records(tuple(split(data, PARTITION, position)), len(data), position))
    return claim


async def offsets(claim: Claim, count: int) -> list[int]:
    found: list[int] = []
    async for message in claim:
        found.append(message.offset)
        assert claim.position == message.offset + 1
        if len(found) == count:
            break
    return found


async def test_large_batch_is_read_in_order_from_any_position() -> None:
    assert await offsets(claim_of(BATCH), 2500) == list(range(2500))
    assert await offsets(claim_of(BATCH, 1700), 800) == list(range(1700, 2500))


async def test_iteration_and_batches_share_one_position_in_a_batch() -> None:
    claim = claim_of(BATCH)
    assert await offsets(claim, 1200) == list(range(1200))
    rest: list[int] = []
    async for batch in claim.batches():
        rest += [message.offset for message in batch]
        assert claim.position == batch.next_offset
        if batch.last_offset == 2499:
            break
    assert rest == list(range(1200, 2500))


async def test_pause_inside_a_large_batch_loses_nothing() -> None:
    claim = claim_of(BATCH)
    assert await offsets(claim, 1001) == list(range(1001))
    claim._set_paused(True)
    claim._set_paused(False)
    assert await offsets(claim, 1499) == list(range(1001, 2500))


async def test_broken_messages_raise_each_time_after_good_ones() -> None:
    broken = bytearray(BATCH)
    broken[-4000:-3970] = b"\x55" * 30
    claim = claim_of(bytes(broken))
    assert await offsets(claim, 2000) == list(range(2000))
    for _ in range(3):
        with pytest.raises(CorruptRecordError):
            await offsets(claim, 1)
        assert claim.position == 2000


async def test_part_of_a_large_batch_stays_next_after_interceptor_error() -> None:
    started: list[int] = []

    def intercept(batch: MessageBatch) -> MessageBatch:
        started.append(batch.from_offset)
        if len(started) == 2:
            raise InterceptorError("odd", PARTITION, batch.from_offset, batch.last_offset, ValueError("no"))
        return batch

    claim = claim_of(BATCH, intercept=intercept)
    assert await offsets(claim, 1000) == list(range(1000))
    with pytest.raises(InterceptorError):
        await offsets(claim, 1)
    assert claim.position == 1000
    assert await offsets(claim, 500) == list(range(1000, 1500)), "none is skipped"
    assert await offsets(claim, 1000) == list(range(1500, 2500))
    assert started == [0, 1000, 1000, 2000]
