"""Orders from Kafka get a price from an HTTP service, and become rows in PostgreSQL. With libraries that block.

sarameya run examples/orders/in_threads.toml
"""

import os
from typing import Annotated

import httpx
import msgspec
import psycopg
from psycopg_pool import ConnectionPool

from sarameya import DeadLetterTopic, Message, MessageHandler, Retry

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

    async def __aenter__(self) -> "Orders":
        self.prices = httpx.Client(base_url=os.environ["PRICES"])
        self.database = ConnectionPool(os.environ["DATABASE"], open=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.prices.close()
        self.database.close()

    def handle(self, message: Message[Order]) -> None:
        order = message.value
        response = self.prices.get(f"/prices/{order.article}")
        cents = order.count * int(response.raise_for_status().text)
        with self.database.connection() as connection:
            connection.execute(UPSERT, (order.number, order.article, cents))
