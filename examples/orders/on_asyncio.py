"""Orders from Kafka get a price from an HTTP service, and become rows in PostgreSQL. On asyncio."""

import asyncio
import os
import signal
from typing import Annotated

import httpx
import msgspec
import psycopg
from psycopg_pool import AsyncConnectionPool

from sarameya import Config, DeadLetterTopic, Message, Retry
from sarameya.asyncio import ConsumerGroup, MessageHandler

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

    def __init__(self, prices: httpx.AsyncClient, database: AsyncConnectionPool) -> None:
        self.prices = prices
        self.database = database

    async def handle(self, message: Message[Order]) -> None:
        order = message.value
        response = await self.prices.get(f"/prices/{order.article}")
        cents = order.count * int(response.raise_for_status().text)
        async with self.database.connection() as connection:
            await connection.execute(UPSERT, (order.number, order.article, cents))


async def main() -> None:
    async with (
        AsyncConnectionPool(os.environ["DATABASE"]) as database,
        httpx.AsyncClient(base_url=os.environ["PRICES"]) as prices,
        ConsumerGroup(os.environ["KAFKA"], "shop", Config(offset_initial="oldest")) as group,
    ):
        consuming = asyncio.ensure_future(group.consume(["orders"], Orders(prices, database)))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, group.close_nowait)
        await consuming


if __name__ == "__main__":
    asyncio.run(main())
