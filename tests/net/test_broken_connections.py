"""A connection that hangs, drips or is reset at any byte of any frame: time-outs hold, the next connection works,
nothing is left behind. In virtual time, over in-memory streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, get_args

import attrs
import pytest
import trio
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
from trio.testing import MockClock

from sarameya import Config, ConnectionLostError, RequestTimeoutError
from sarameya.net.broker_pool import BrokerPool, Purpose, open_broker_pool
from sarameya.protocol.cluster.metadata import Broker
from sarameya.protocol.versions import Api
from sarameya.testing import EmbeddedCluster, memory_cluster
from tests.net.breaking import Breaking, Half, How

CONFIG = Config(request_timeout=30.0, connect_timeout=4.0)


@attrs.frozen
class Asking:
    """A request whose connection breaks, and how long its answer is waited for."""

    message: Any
    fields: Mapping[str, Any]
    timeout: float


ASKED = {
    # Negotiated in front of any request.
    Api.API_VERSIONS: Asking(MetadataRequest, {"topics": []}, CONFIG.connect_timeout),
    Api.METADATA: Asking(MetadataRequest, {"topics": []}, CONFIG.request_timeout),
    Api.FIND_COORDINATOR: Asking(FindCoordinatorRequest, {"key": "g"}, CONFIG.request_timeout),
}


@asynccontextmanager
async def pool_of(cluster: EmbeddedCluster, transport: Breaking) -> AsyncIterator[BrokerPool]:
    async with open_broker_pool(cluster.bootstrap_servers, CONFIG, lambda event: None, transport) as pool:
        pool.learn(Broker(0, "broker-0", 9092))
        yield pool


async def ask(pool: BrokerPool, asking: Asking) -> Any:
    return await pool.request(0, Purpose.METADATA, asking.message, **asking.fields)


async def sizes(api: Api) -> dict[Half, int]:
    """Return the number of bytes of the frames to break."""
    async with memory_cluster({"orders": 1}) as cluster:
        transport = Breaking(cluster.transport, api)
        async with pool_of(cluster, transport) as pool:
            await ask(pool, ASKED[api])
        return transport.sizes


@pytest.mark.parametrize("api", ASKED, ids=lambda api: api.name)
@pytest.mark.parametrize("half", get_args(Half))
@pytest.mark.parametrize("how", get_args(How))
async def test_connection_breaking_at_any_byte_is_replaced(
    autojump_clock: MockClock, api: Api, half: Half, how: How
) -> None:
    asking = ASKED[api]
    size = (await sizes(api))[half]
    assert size > 8
    async with memory_cluster({"orders": 1}) as cluster:
        await trio.testing.wait_all_tasks_blocked()
        before = trio.lowlevel.current_statistics().tasks_living
        for at in range(size):
            transport = Breaking(cluster.transport, api, how, half, at)
            async with pool_of(cluster, transport) as pool:
                began = trio.current_time()
                # What is left of a frame that drips may take as long as its answer is waited for.
                drips_for = (size - at) * transport.pause
                if how == "drip" and drips_for < asking.timeout:
                    await ask(pool, asking)
                    assert trio.current_time() - began == pytest.approx(drips_for), at
                else:
                    with pytest.raises(ConnectionLostError if how == "reset" else RequestTimeoutError):
                        await ask(pool, asking)
                    assert trio.current_time() - began == pytest.approx(0 if how == "reset" else asking.timeout), at
                    await trio.testing.wait_all_tasks_blocked()
                    assert transport.open == 0, at
                again = trio.current_time()
                await ask(pool, asking)
                assert trio.current_time() == again, at
                assert transport.has_broken
                assert transport.open == 1, at
            assert transport.open == 0, at
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == before


async def test_hanging_connect_times_out_and_the_next_works(autojump_clock: MockClock) -> None:
    async with memory_cluster() as cluster:
        transport = HangsOnce(cluster.transport)
        async with open_broker_pool(cluster.bootstrap_servers, CONFIG, lambda event: None, transport) as pool:
            pool.learn(Broker(0, "broker-0", 9092))
            with pytest.raises(RequestTimeoutError, match="broker-0:9092: no connection within 4 s"):
                await ask(pool, ASKED[Api.METADATA])
            assert trio.current_time() == pytest.approx(CONFIG.connect_timeout)
            await ask(pool, ASKED[Api.METADATA])
            assert trio.current_time() == pytest.approx(CONFIG.connect_timeout)


class HangsOnce:
    """A transport whose first attempt to connect never ends."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._hung = False

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        if not self._hung:
            self._hung = True
            await trio.sleep_forever()
        stream: trio.abc.Stream = await self._transport.connect(host, port)
        return stream
