"""Two tasks for six partitions; one partition is paused until the others are done.

A stream merges several partitions for one task. This suits a sink that should have few writers, or a handler that needs
all messages.

python examples/streams.py
"""

from __future__ import annotations

import trio

from sarameya import Config, ConsumerGroup, Session, Stream, StreamHandler, TopicPartition
from sarameya.embedded import EmbeddedCluster

ORDERS = 1200
LAST = TopicPartition("orders", 5)


class Orders(StreamHandler):
    """Counts the orders of each partition, in two tasks with three partitions each."""

    streams = 2

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.seen = [0] * 6
        self.shares: dict[int, list[int]] = {}

    async def consume_stream(self, session: Session, stream: Stream) -> None:
        self.shares[stream.index] = [partition.partition for partition in stream.claims]
        async for batch in stream.batches():
            self.seen[batch.partition] += len(batch)
            session.mark_batch(batch)
            if sum(self.seen) == ORDERS - ORDERS // 6:
                print(f"before the last partition is resumed: {self.seen}")
                session.resume([LAST])
            elif sum(self.seen) == ORDERS:
                self.group.close_nowait()


async def main() -> None:
    async with EmbeddedCluster(topics={"orders": 6}) as cluster:
        for number in range(ORDERS):
            cluster.produce("orders", number % 6, value=b"%d" % number)
        async with ConsumerGroup(cluster.bootstrap_servers, "orders", Config(offset_initial="oldest")) as group:
            orders = Orders(group)
            group.pause([LAST])
            await group.consume(["orders"], orders)
        committed = sum(offset.offset for offset in cluster.committed("orders").values())
        print(f"streams of {sorted(orders.shares.values())}: {orders.seen}; {committed} committed")


if __name__ == "__main__":
    trio.run(main)
