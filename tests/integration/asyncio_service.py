"""A web service on asyncio: FastAPI, httpx, SQLAlchemy's asyncio on PostgreSQL, and a group of `sarameya.asyncio`.

Orders arrive by HTTP and go through Kafka. The handler requests the price of each order from another endpoint, and
writes a row. Environment variables have the addresses of Kafka (`SERVERS`) and of the database (`DATABASE`), and the
service's own port (`PORT`).

    PORT=8000 SERVERS=localhost:9092 DATABASE=me@localhost/shop python -m tests.integration.asyncio_service
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import uvicorn
from fastapi import FastAPI, HTTPException
from sqlalchemy import Integer, String, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from sarameya import Config, DeadLetterTopic, Message, Retry
from sarameya.asyncio import ConsumerGroup, MessageHandler, Producer

SERVERS, PORT = os.environ["SERVERS"], int(os.environ["PORT"])
SESSION_TIMEOUT = float(os.environ.get("SESSION_TIMEOUT", "6"))


class Base(DeclarativeBase):
    """The tables."""


class Order(Base):
    """An order, and the number of times it was written."""

    __tablename__ = "orders"

    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    customer: Mapped[str] = mapped_column(String)
    price: Mapped[int] = mapped_column(Integer)
    written: Mapped[int] = mapped_column(Integer, default=1)


class Orders(MessageHandler):
    """Writes each order with its price. Customers' orders stay in their order."""

    ordering = "key"
    concurrency = 20
    retry = Retry(attempts=3, backoff=0.05, on=httpx.HTTPError)
    dead_letters = DeadLetterTopic("orders.dead")

    def __init__(self, client: httpx.AsyncClient, engine: AsyncEngine) -> None:
        self.client = client
        self.engine = engine

    async def handle(self, message: Message) -> None:
        number, customer = int(message.value or b""), (message.key or b"").decode()
        response = await self.client.get(f"http://127.0.0.1:{PORT}/price/{number}")
        price = response.raise_for_status().json()
        row = insert(Order).values(number=number, customer=customer, price=price)
        row = row.on_conflict_do_update(index_elements=["number"], set_={"price": price, "written": Order.written + 1})
        async with self.engine.begin() as connection:
            await connection.execute(row)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    app.state.engine = engine = create_async_engine(f"postgresql+asyncpg://{os.environ['DATABASE']}")
    app.state.priced = defaultdict(int)
    async with engine.begin() as connection:
        # Two workers may start at the same time.
        await connection.execute(text("SELECT pg_advisory_xact_lock(1)"))
        await connection.run_sync(Base.metadata.create_all)
    config = Config(offset_initial="oldest", session_timeout=SESSION_TIMEOUT, heartbeat_interval=SESSION_TIMEOUT / 10)
    async with (
        httpx.AsyncClient() as client,
        Producer(SERVERS) as app.state.producer,
        ConsumerGroup(SERVERS, "shop", config) as app.state.group,
    ):
        consuming = asyncio.create_task(app.state.group.consume(["orders"], Orders(client, engine)))
        consuming.add_done_callback(stop_if_failed)
        yield
        await app.state.group.close()
        await consuming
    await engine.dispose()


def stop_if_failed(consuming: asyncio.Task[None]) -> None:
    if not consuming.cancelled() and consuming.exception() is not None:
        signal.raise_signal(signal.SIGTERM)


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{number}")
async def order(number: int, customer: str) -> int:
    stored = await app.state.producer.send("orders", b"%d" % number, key=customer.encode())
    return int(stored.offset)


@app.get("/price/{number}")
async def price(number: int) -> int:
    """Return the price. The first request for an even number fails; those for 13 always do."""
    await asyncio.sleep(0.01)
    app.state.priced[number] += 1
    if number == 13 or (number % 2 == 0 and app.state.priced[number] == 1):
        raise HTTPException(503)
    return number * 100


@app.get("/orders")
async def orders() -> dict[str, int]:
    async with app.state.engine.connect() as connection:
        row = (await connection.execute(select(func.count(), func.coalesce(func.max(Order.written), 0)))).one()
    return {"count": row[0], "most_written": row[1]}


@app.post("/block")
async def block(seconds: float) -> None:
    """Block the event loop, as a library without asyncio does."""
    time.sleep(seconds)  # noqa: ASYNC251 - the test needs a blocked loop


@app.get("/status")
async def status() -> dict[str, int | str]:
    found = await app.state.group.status()
    return {"state": found.state, "generation": found.generation, "partitions": len(found.partitions)}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=PORT, loop=os.environ.get("LOOP", "asyncio"), log_level="warning")
