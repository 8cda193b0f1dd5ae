"""Orders from Kafka get a price from an HTTP service, and become rows in PostgreSQL. On trio."""

import os
import signal
from typing import Annotated

import httpx
import msgspec
import psycopg
import trio
from psycopg_pool import ConnectionPool

from sarameya import Config, ConsumerGroup, DeadLetterTopic, Message, MessageHandler, Retry

UPSERT = "INSERT INTO orders VALUES (%s, %s, %s) ON CONFLICT (number) DO UPDATE SET cents = EXCLUDED.cents"


class Order(msgspec.Struct):
    number: int
    article: str
    count: Annotated[int, msgspec.Meta(gt=0)]


class Orders(MessageHandler[Order]):
    ordering = "key"  # the customer
    concurrency = 50
    retry = Retry(attempts=3, backoff=0.2, on=(httpx.HTTPError, psycopg.OperationalError))
    dead_letters = DeadLetterTopic("{topic}.dead")

    def __init__(self, prices: httpx.AsyncClient, database: ConnectionPool) -> None:
        self.prices = prices
        self.database = database

    async def handle(self, message: Message[Order]) -> None:
        order = message.value
        response = await self.prices.get(f"/prices/{order.article}")
        cents = order.count * int(response.raise_for_status().text)
        await trio.to_thread.run_sync(self.write, order, cents)

    def write(self, order: Order, cents: int) -> None:
        with self.database.connection() as connection:
            connection.execute(UPSERT, (order.number, order.article, cents))


async def close_at_sigterm(group: ConsumerGroup) -> None:
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            group.close_nowait()


async def main() -> None:
    with ConnectionPool(os.environ["DATABASE"], open=True) as database:
        async with (
            httpx.AsyncClient(base_url=os.environ["PRICES"]) as prices,
            ConsumerGroup(os.environ["KAFKA"], "shop", Config(offset_initial="oldest")) as group,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(close_at_sigterm, group)
            await group.consume(["orders"], Orders(prices, database))
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
