"""Partitions without a group: adds up the last hour of a topic, and commits the end for the next run.

python examples/standalone.py
"""

from __future__ import annotations

import time

import trio

from sarameya import Claim, Consumer
from sarameya.embedded import EmbeddedCluster

HOUR = 3600 * 1000
MINUTE = 60 * 1000


async def total(consumer: Consumer, claim: Claim, end: int) -> int:
    """Return the sum of the orders from the claim's start offset up to `end`."""
    amount = 0
    while claim.position < end:
        batch = await anext(claim.batches())
        amount += sum(int(message.value or b"0") for message in batch.messages)
        consumer.mark_batch(batch)
    return amount


async def main() -> None:
    now = int(time.time() * 1000)
    async with EmbeddedCluster(topics={"orders": 4}) as cluster:
        for minute in range(120):  # two hours of orders, one order of 5 each minute
            cluster.produce("orders", minute % 4, b"5", timestamp=now - 2 * HOUR + minute * MINUTE)
        async with Consumer(cluster.bootstrap_servers, group_id="hourly") as consumer:
            partitions = await consumer.topic_partitions("orders")
            starts = await consumer.offsets(partitions, at=now - HOUR)
            ends = await consumer.offsets(partitions, at="newest")
            amount = 0
            async with consumer.consume_partitions(starts) as claims:
                for partition, claim in claims.items():
                    amount += await total(consumer, claim, ends[partition])
        committed = sum(offset.offset for offset in cluster.committed("hourly").values())
        print(f"{amount} ordered in the last hour; {committed} committed")


if __name__ == "__main__":
    trio.run(main)
