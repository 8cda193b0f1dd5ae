"""Consumers of chosen partitions in asyncio programs."""

from __future__ import annotations

import asyncio

import pytest

from sarameya import CommittedOffset, ConfigError, TopicPartition
from sarameya.asyncio import Consumer
from tests.asyncio.kit import QUICK, cluster_of, eventually, run

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_partitions_are_read_and_committed() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 2}) as cluster:
            await cluster.produce("orders", 0, b"a", b"b", b"c")
            await cluster.produce("orders", 1, b"x")
            async with Consumer(cluster.bootstrap_servers, QUICK, group_id="g") as consumer:
                assert (consumer.group_id, consumer.config) == ("g", QUICK)
                assert await consumer.topic_partitions("orders") == (P0, P1)
                assert await consumer.offsets([P0, P1], "newest") == {P0: 3, P1: 1}
                assert await consumer.committed([P0]) == {P0: None}
                async with consumer.consume_partitions([P0, P1]) as claims:
                    values = []
                    async for message in claims[P0]:
                        values.append(message.value)
                        consumer.mark_message(message)
                        if claims[P0].position == 2:
                            break
                    assert values == [b"a", b"b"]
                    (batch,) = [await anext(claims[P1].batches())]
                    consumer.mark_batch(batch)
                    assert (claims[P0].lag, claims[P1].lag) == (1, 0)
                    await consumer.commit()
                    assert (await consumer.committed([P0, P1]))[P1] == CommittedOffset(1, "", batch.leader_epoch)
                consumer.mark_offset("orders", 0, 3)
            assert [await cluster.committed("g", partition=number) for number in range(2)] == [3, 1]
            with pytest.raises(ValueError, match="orders-0 cannot be marked: this consumer has not read it"):
                consumer.mark_offset("orders", 0, 4)

    run(main)


def test_reset_offset_moves_the_commit_back() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a", b"b", b"c")
            for expected in (3, 1):
                async with Consumer(cluster.bootstrap_servers, QUICK, group_id="g") as consumer:
                    async with consumer.consume_partition("orders", 0):
                        if expected == 3:
                            consumer.mark_offset("orders", 0, 3)
                        else:
                            consumer.reset_offset("orders", 0, 1)
                        with pytest.raises(ValueError, match="no offset"):
                            consumer.mark_offset("orders", 0, -1)
                assert await cluster.committed("g") == expected

    run(main)


def test_claim_stops_with_its_block_or_earlier() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 2}) as cluster:
            async with Consumer(cluster.bootstrap_servers, QUICK) as consumer:
                async with consumer.consume_partitions([P0, P1], "oldest") as claims:
                    readers = {each: asyncio.create_task(_read(claims[each])) for each in claims}
                    ended = asyncio.create_task(claims[P1].wait_ended())
                    await consumer.end(claims[P0])
                    assert await readers[P0] == 0
                    assert claims[P0].has_ended
                    assert not readers[P1].done()
                    assert not ended.done()
                assert await readers[P1] == 0
                await ended
                async with consumer.consume_partition("orders", 0, "oldest") as claim:
                    await cluster.produce("orders", 0, b"a")
                    assert (await anext(aiter(claim))).value == b"a"
                    with pytest.raises(ValueError, match="is being read"):
                        async with consumer.consume_partition("orders", 0, "oldest"):
                            pass
            with pytest.raises(ConfigError, match="group_id"):
                consumer.mark_offset("orders", 0, 1)

    async def _read(claim: object) -> int:
        return len([message async for message in claim])  # type: ignore[attr-defined]

    run(main)


def test_cancelled_start_leaves_the_partition_free() -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            async with Consumer(cluster.bootstrap_servers, QUICK) as consumer:
                for steps in range(8):

                    async def read() -> None:
                        async with consumer.consume_partition("orders", 0, "oldest"):
                            pass

                    task = asyncio.create_task(read())
                    for _ in range(steps):
                        await asyncio.sleep(0.0005)
                    task.cancel()
                    await asyncio.wait([task])
                async with consumer.consume_partition("orders", 0, "oldest") as claim:
                    await cluster.produce("orders", 0, b"a")
                    assert (await anext(aiter(claim))).value == b"a"

    run(main)


def test_several_tasks_read_one_claim() -> None:
    count = 5000

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, *(b"%d" % number for number in range(count)))
            async with Consumer(cluster.bootstrap_servers, QUICK) as consumer:
                found: list[int] = []

                async with consumer.consume_partition("orders", 0, "oldest") as claim:

                    async def read() -> None:
                        async for message in claim:
                            found.append(message.offset)
                            if message.offset % 7 == 0:
                                await asyncio.sleep(0)

                    readers = [asyncio.create_task(read()) for _ in range(3)]
                    await eventually(lambda: len(found) == count)
                await asyncio.gather(*readers)
                assert sorted(found) == list(range(count))

    run(main)
