"""The rate of requests to a broker that refuses authentication, over minutes. Virtual time."""

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
from tests.net.test_authentication import cluster_with, config, open_pool, request_metadata

MINUTES = 600.0


class Passwords(dict[str, str]):
    """A broker's passwords, with the time of each lookup: one lookup for each authentication by PLAIN."""

    def __init__(self, **passwords: str) -> None:
        super().__init__(passwords)
        self.lookups: list[float] = []

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.lookups.append(trio.current_time())
        return super().get(name, default)


@asynccontextmanager
async def refused_later() -> AsyncIterator[tuple[EmbeddedCluster, Passwords, Callable[[], None]]]:
    """Yield a cluster that accepts alice, its passwords, and a function that changes hers."""
    users = Passwords(alice="sesame")
    async with cluster_with(SaslConfig(users=users, lifetime=30.0)) as cluster:

        def change() -> None:
            users["alice"] = "simsim"
            users.lookups.clear()
            cluster.disconnect()

        yield cluster, users, change


async def test_idle_producer_rarely_retries_after_a_refusal(autojump_clock: MockClock) -> None:
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
    assert 0 < len(users.lookups) <= 4
    assert sum(isinstance(event, Retrying) for event in events) <= 4


async def test_idle_consumer_rarely_retries_after_a_refusal(autojump_clock: MockClock) -> None:
    async with (
        refused_later() as (cluster, users, change),
        Consumer(cluster.bootstrap_servers, config(), transport=cluster.transport) as reader,
        reader.consume_partition("t", 0, "oldest") as claim,
    ):
        change()
        with pytest.raises(AuthenticationError):
            await anext(aiter(claim))
        await trio.sleep(MINUTES)
        assert 0 < len(users.lookups) <= 4


@pytest.mark.parametrize("kind", ["producer", "consumer", "administrator"])
async def test_constant_calls_rarely_reach_a_refusing_broker(kind: str, autojump_clock: MockClock) -> None:
    async with refused_later() as (cluster, users, change):
        async with (
            Producer(
                cluster.bootstrap_servers, config(), transport=cluster.transport, wall_clock=virtual_wall_clock
            ) as producer,
            Consumer(cluster.bootstrap_servers, config(), transport=cluster.transport) as reader,
            GroupAdmin(cluster.bootstrap_servers, config(), lambda _: None, transport=cluster.transport) as admin,
        ):
            await producer.send("t", b"value")
            calls: dict[str, Callable[[], Awaitable[object]]] = {
                "producer": lambda: producer.send("t", b"value"),
                "consumer": lambda: reader.topic_partitions("t"),
                "administrator": lambda: admin.metadata(["t"]),
            }
            change()
            times = 0
            began = trio.current_time()
            while trio.current_time() - began < MINUTES:
                with trio.fail_after(5), pytest.raises(AuthenticationError, match="PLAIN as 'alice' was refused"):
                    await calls[kind]()
                times += 1
                await trio.sleep(0.1)
            assert times > 5000
            assert 20 <= len(users.lookups) <= 60
            # The correct password is noticed.
            users["alice"] = "sesame"
            await trio.sleep(30)
            await calls[kind]()


async def test_accepted_password_resets_the_backoff_of_refusals(autojump_clock: MockClock) -> None:
    users = Passwords(alice="simsim")
    async with open_pool(SaslConfig(users=users), config()) as (pool, _):
        for password, wait in (("simsim", 0.13), ("simsim", 0.25), ("sesame", 0.0), ("simsim", 0.13), ("sesame", 0.0)):
            users["alice"] = password
            pool.close_connection(-1, Purpose.METADATA)
            lookups = len(users.lookups)
            if password == "sesame":
                await request_metadata(pool)
            else:
                for _ in range(3):
                    with pytest.raises(AuthenticationError):
                        await request_metadata(pool)
            assert len(users.lookups) == lookups + 1
            await trio.sleep(wait)
