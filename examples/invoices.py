"""Copies from topic to topic, at least once: each order becomes an invoice, even if the group removes the member.

python examples/invoices.py
"""

from __future__ import annotations

import msgspec
import trio

from sarameya import Config, Consumer, ConsumerGroup, Message, MessageHandler, Producer, Retry
from sarameya.embedded import EmbeddedCluster

ORDERS = 1000


class Order(msgspec.Struct):
    customer: str
    cents: int


class Invoice(msgspec.Struct):
    customer: str
    cents: int


class Billing(MessageHandler[Order]):
    """Writes an invoice for each order. An order is finished once its invoice is stored."""

    ordering = "key"  # the customer, whose invoices stay in the order of the orders
    concurrency = 50
    retry = Retry(attempts=3)

    def __init__(self, producer: Producer[Invoice, str]) -> None:
        self.producer = producer

    async def handle(self, message: Message[Order]) -> None:
        invoice = Invoice(message.value.customer, message.value.cents)
        origin = f"{message.topic}/{message.partition}/{message.offset}".encode()
        await self.producer.send("invoices", invoice, key=invoice.customer, headers=(("origin", origin),))


async def origins(servers: list[str]) -> list[bytes | None]:
    """Return the order of each invoice."""
    found: list[bytes | None] = []
    async with Consumer(servers) as consumer:
        partitions = await consumer.topic_partitions("invoices")
        ends = await consumer.offsets(partitions, at="newest")
        async with consumer.consume_partitions(dict.fromkeys(partitions, 0)) as claims:
            for partition, claim in claims.items():
                while claim.position < ends[partition]:
                    batch = await anext(claim.batches())
                    found += [dict(message.headers)["origin"] for message in batch]
    return found


def count(cluster: EmbeddedCluster) -> tuple[int, int]:
    """Return the number of invoices, and of committed orders."""
    invoices = sum(cluster.log("invoices", partition).end_offset for partition in range(4))
    return invoices, sum(offset.offset for offset in cluster.committed("billing").values())


async def main() -> None:
    config = Config(offset_initial="oldest", heartbeat_interval=0.1)
    async with EmbeddedCluster(topics={"orders": 4, "invoices": 4}) as cluster:
        for number in range(ORDERS):
            order = Order(f"customer {number % 30}", number)
            cluster.produce("orders", number % 30 % 4, msgspec.json.encode(order), key=order.customer.encode())
        servers = cluster.bootstrap_servers
        async with (
            Producer[Invoice, str](servers, value_format="json", key_format="string") as producer,
            ConsumerGroup(servers, "billing", config) as group,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(group.consume, ["orders"], Billing(producer))
            while count(cluster)[0] < ORDERS / 2:  # noqa: ASYNC110  the cluster has no event for this
                await trio.sleep(0.01)
            # As after a crash: what the member has done since its last commit is done again.
            cluster.expire_member("billing", cluster.describe_group("billing").members[0].member_id)
            while count(cluster)[1] < ORDERS:  # noqa: ASYNC110
                await trio.sleep(0.01)
            group.close_nowait()
        written = await origins(servers)
    repeated = len(written) - len(set(written))
    print(f"{len(set(written))} of {ORDERS} orders have an invoice; {repeated} of the invoices were written twice")


if __name__ == "__main__":
    trio.run(main)
