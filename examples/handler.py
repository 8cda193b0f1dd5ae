"""A ten-line handler: a group with one member counts the orders of an embedded broker, and ends after the last one.

python examples/handler.py
"""

from __future__ import annotations

import trio

from sarameya import Claim, Config, ConsumerGroup, ConsumerGroupHandler, Session
from sarameya.embedded import EmbeddedCluster

ORDERS = 1000


class Orders(ConsumerGroupHandler):
    """Adds up the orders, and closes the group after the last one."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.seen = 0
        self.total = 0

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for message in claim:
            self.seen += 1
            self.total += int(message.value or b"0")
            session.mark_message(message)
            if self.seen == ORDERS:
                self.group.close_nowait()


async def main() -> None:
    async with EmbeddedCluster(topics={"orders": 4}) as cluster:
        for number in range(ORDERS):
            cluster.produce("orders", number % 4, value=b"%d" % number)
        async with ConsumerGroup(cluster.bootstrap_servers, "orders", Config(offset_initial="oldest")) as group:
            orders = Orders(group)
            await group.consume(["orders"], orders)
        committed = sum(offset.offset for offset in cluster.committed("orders").values())
        print(f"{orders.seen} orders of {orders.total} in all; {committed} committed")


if __name__ == "__main__":
    trio.run(main)
