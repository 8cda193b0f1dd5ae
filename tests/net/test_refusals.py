"""No storm before a broker that does not take us: how often it is asked, over minutes. Virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from sarameya import AuthenticationError, Consumer, Event, GroupAdmin, Producer
from sarameya.embedded import EmbeddedCluster, SaslConfig
from sarameya.net.broker_pool import Purpose
from sarameya.observe import Retrying
from sarameya.testing import virtual_wall_clock
from tests.net.test_authentication import ask, asking, config, reached

MINUTES = 600.0


class Passwords(dict[str, str]):
    """A broker's, which keeps when it has looked for one: once for each authentication by PLAIN."""

    def __init__(self, **passwords: str) -> None:
        super().__init__(passwords)
        self.looks: list[float] = []

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.looks.append(trio.current_time())
        return super().get(name, default)


@asynccontextmanager
async def refused_later() -> AsyncIterator[tuple[EmbeddedCluster, Passwords, Callable[[], None]]]:
    """A cluster that knows alice, and what ends that."""
    users = Passwords(alice="sesame")
    async with asking(SaslConfig(users=users, lifetime=30.0)) as cluster:

        def change() -> None:
            users["alice"] = "simsim"
            users.looks.clear()
            cluster.disconnect()

        yield cluster, users, change


async def test_producer_that_is_asked_for_nothing_asks_for_nothing(autojump_clock: MockClock) -> None:
    async with refused_later() as (cluster, users, change):
        events: list[Event] = []
        async with Producer(
            cluster.bootstrap_servers,
            config(),
            transport=cluster.transport,
            wall_clock=virtual_wall_clock,
            observers=[events.append],
        ) as producer:
            await producer.send("t", b"value")
            change()
            await trio.sleep(MINUTES)
    assert 0 < len(users.looks) <= 4
    assert sum(isinstance(event, Retrying) for event in events) <= 4


async def test_consumer_that_is_asked_for_nothing_asks_for_nothing(autojump_clock: MockClock) -> None:
    async with (
        refused_later() as (cluster, users, change),
        Consumer(cluster.bootstrap_servers, config(), transport=cluster.transport) as reader,
        reader.consume_partition("t", 0, "oldest") as claim,
    ):
        change()
        with pytest.raises(AuthenticationError):
            await anext(aiter(claim))
        await trio.sleep(MINUTES)
        assert 0 < len(users.looks) <= 4


@pytest.mark.parametrize("kind", ["producer", "consumer", "administrator"])
async def test_who_asks_again_and_again_asks_the_broker_now_and_then(kind: str, autojump_clock: MockClock) -> None:
    async with refused_later() as (cluster, users, change):
        async with (
            Producer(
                cluster.bootstrap_servers, config(), transport=cluster.transport, wall_clock=virtual_wall_clock
            ) as producer,
            Consumer(cluster.bootstrap_servers, config(), transport=cluster.transport) as reader,
            GroupAdmin(cluster.bootstrap_servers, config(), lambda _: None, transport=cluster.transport) as admin,
        ):
            await producer.send("t", b"value")
            asks: dict[str, Callable[[], Awaitable[object]]] = {
                "producer": lambda: producer.send("t", b"value"),
                "consumer": lambda: reader.topic_partitions("t"),
                "administrator": lambda: admin.metadata(["t"]),
            }
            change()
            times = 0
            began = trio.current_time()
            while trio.current_time() - began < MINUTES:
                with trio.fail_after(5), pytest.raises(AuthenticationError, match="PLAIN as 'alice' was refused"):
                    await asks[kind]()
                times += 1
                await trio.sleep(0.1)
            assert times > 5000
            assert 20 <= len(users.looks) <= 60
            # Which is put right, and noticed.
            users["alice"] = "sesame"
            await trio.sleep(30)
            await asks[kind]()


async def test_refusal_is_forgotten_once_a_broker_takes_us(autojump_clock: MockClock) -> None:
    users = Passwords(alice="simsim")
    async with reached(SaslConfig(users=users), config()) as (pool, _):
        for password, wait in (("simsim", 0.13), ("simsim", 0.25), ("sesame", 0.0), ("simsim", 0.13), ("sesame", 0.0)):
            users["alice"] = password
            pool.close_connection(-1, Purpose.METADATA)
            looks = len(users.looks)
            if password == "sesame":
                await ask(pool)
            else:
                for _ in range(3):
                    with pytest.raises(AuthenticationError):
                        await ask(pool)
            assert len(users.looks) == looks + 1
            await trio.sleep(wait)
