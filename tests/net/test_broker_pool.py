"""Choice of the connection for a request. Over the in-memory cluster under virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from kafka.protocol.metadata import MetadataRequest
from trio.testing import MockClock

from sarameya import Config, ConnectError, ConnectionLostError, Event
from sarameya.net.broker_pool import BrokerPool, Purpose, open_broker_pool
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.observe import ConnectionLost, Retrying
from sarameya.protocol.cluster.metadata import Broker
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers
from tests.group.kit import CutOff, Recorder, deadline, fill, orders, start_member


class OneBroker:
    """A transport that connects every address to one broker."""

    def __init__(self, transport: Any) -> None:
        self.addresses: list[str] = []
        self._transport = transport

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        self.addresses.append(f"{host}:{port}")
        return await self._transport.connect("broker-0", 9092)


class Refusing:
    """A transport that raises `error` for every address."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        raise self._error


async def request_metadata(pool: BrokerPool, node_id: int) -> Any:
    return await pool.request(node_id, Purpose.METADATA, MetadataRequest, topics=[])


@asynccontextmanager
async def one_broker() -> AsyncIterator[tuple[BrokerPool, OneBroker, list[Event]]]:
    events: list[Event] = []
    async with orders() as cluster:
        transport = OneBroker(cluster.transport)
        async with open_broker_pool(["boot:9092"], Config(), events.append, transport) as pool:
            yield pool, transport, events


@pytest.mark.parametrize(
    "error",
    [
        UnicodeError("encoding with 'idna' codec failed (UnicodeError: label empty or too long)"),
        OverflowError("getsockaddrarg: port must be 0-65535."),
        ConnectionRefusedError(111, "Connection refused"),
    ],
)
async def test_connect_error_has_the_address_and_the_cause(autojump_clock: MockClock, error: Exception) -> None:
    async with open_broker_pool(["kafka..local:9092"], Config(), lambda event: None, Refusing(error)) as pool:
        with pytest.raises(ConnectError, match=r"kafka\.\.local:9092: ") as caught:
            await pool.request_any(MetadataRequest, topics=[])
        assert str(error.args[-1]) in str(caught.value)


async def test_unencodable_host_name_is_a_lost_connection() -> None:
    async with open_broker_pool(["kafka..local:9092"], Config(), lambda event: None) as pool:
        with pytest.raises(ConnectionLostError, match=r"kafka\.\.local:9092"):
            await request_metadata(pool, -1)


async def test_learned_address_overrides_the_one_of_metadata(autojump_clock: MockClock) -> None:
    async with one_broker() as (pool, transport, _):
        pool.update({0: Broker(0, "old", 9092), 1: Broker(1, "other", 9092)})
        await request_metadata(pool, 0)
        await request_metadata(pool, 1)
        old, other = await pool.connection(0, Purpose.METADATA), await pool.connection(1, Purpose.METADATA)
        pool.learn(Broker(0, "new", 9092))
        assert not old.is_open
        assert other.is_open
        await request_metadata(pool, 0)
        assert transport.addresses == ["old:9092", "other:9092", "new:9092"]


async def test_unchanged_address_keeps_its_connections(autojump_clock: MockClock) -> None:
    async with one_broker() as (pool, transport, _):
        pool.learn(Broker(0, "same", 9092))
        await request_metadata(pool, 0)
        pool.learn(Broker(0, "same", 9092))
        await request_metadata(pool, 0)
        assert transport.addresses == ["same:9092"]


async def test_metadata_without_brokers_is_discarded(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = 0

    def forget_brokers(request: Any, answer: Any) -> None:
        nonlocal answers
        answers += 1
        if answers in (2, 3):
            answer.brokers = []

    edit_answers(monkeypatch, Api.METADATA, forget_brokers)
    async with one_broker() as (pool, _, events), deadline() as nursery:
        metadata = MetadataRefresher(pool, Config(), events.append)
        metadata.follow(["orders"])
        nursery.start_soon(metadata.run)
        before = await metadata.refresh()
        metadata.request_refresh()
        await trio.sleep(0.01)
        assert metadata.current is before
        after = await metadata.refresh()
        assert after.brokers == before.brokers
        causes = [event.cause for event in events if isinstance(event, Retrying)]
        assert causes == ["the response to a Metadata request contains no broker"] * 2


async def test_new_partition_does_not_wait_for_an_old_long_poll(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        first, second = Recorder(), Recorder()
        member = await start_member(nursery, cluster, first, fetch_max_wait=20.0)
        await first.until(lambda: bool(first.sessions))
        other = await start_member(nursery, cluster, second, fetch_max_wait=20.0)
        await second.until(lambda: bool(second.sessions))
        await trio.sleep(5)
        await other.close()
        await first.until(lambda: len(first.sessions) == 3)
        began = trio.current_time()
        (kept,) = first.sessions[1].claims["orders"]
        fill(cluster, 1, 1 - kept)
        await first.received(1)
        assert trio.current_time() - began < 1
        assert not member.seen(ConnectionLost), "a connection without waiting requests is not lost"


async def test_silent_broker_is_reported_as_a_lost_connection(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = Recorder()
        transport = CutOff(cluster.transport)
        member = await start_member(nursery, cluster, handler, transport=transport)
        await handler.until(lambda: bool(handler.sessions))
        transport.alive = False
        await trio.sleep(60)
        assert any("no response to" in event.cause for event in member.seen(ConnectionLost))
