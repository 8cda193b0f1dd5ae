"""Connections that hang, drip or are reset at any byte of a frame: timeouts hold, the next connection works, and no
connection or task remains. In virtual time, over in-memory streams."""

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
from tests.net.breaking_transport import Breaking, Half, How

CONFIG = Config(request_timeout=30.0, connect_timeout=4.0)


@attrs.frozen
class BrokenRequest:
    """A request whose connection breaks, and the timeout of its response."""

    message: Any
    fields: Mapping[str, Any]
    timeout: float


REQUESTS = {
    # Negotiated before any request.
    Api.API_VERSIONS: BrokenRequest(MetadataRequest, {"topics": []}, CONFIG.connect_timeout),
    Api.METADATA: BrokenRequest(MetadataRequest, {"topics": []}, CONFIG.request_timeout),
    Api.FIND_COORDINATOR: BrokenRequest(FindCoordinatorRequest, {"key": "g"}, CONFIG.request_timeout),
}


@asynccontextmanager
async def pool_of(cluster: EmbeddedCluster, transport: Breaking) -> AsyncIterator[BrokerPool]:
    async with open_broker_pool(cluster.bootstrap_servers, CONFIG, lambda event: None, transport) as pool:
        pool.learn(Broker(0, "broker-0", 9092))
        yield pool


async def send(pool: BrokerPool, request: BrokenRequest) -> Any:
    return await pool.request(0, Purpose.METADATA, request.message, **request.fields)


async def sizes(api: Api) -> dict[Half, int]:
    """Return the number of bytes of the frames to break."""
    async with memory_cluster({"orders": 1}) as cluster:
        transport = Breaking(cluster.transport, api)
        async with pool_of(cluster, transport) as pool:
            await send(pool, REQUESTS[api])
        return transport.sizes


@pytest.mark.parametrize("api", REQUESTS, ids=lambda api: api.name)
@pytest.mark.parametrize("half", get_args(Half))
@pytest.mark.parametrize("how", get_args(How))
async def test_connection_breaking_at_any_byte_is_replaced(
    autojump_clock: MockClock, api: Api, half: Half, how: How
) -> None:
    request = REQUESTS[api]
    size = (await sizes(api))[half]
    assert size > 8
    async with memory_cluster({"orders": 1}) as cluster:
        await trio.testing.wait_all_tasks_blocked()
        before = trio.lowlevel.current_statistics().tasks_living
        for at in range(size):
            transport = Breaking(cluster.transport, api, how, half, at)
            async with pool_of(cluster, transport) as pool:
                began = trio.current_time()
                # The rest of a dripping frame may take until the timeout of its response.
                drips_for = (size - at) * transport.pause
                if how == "drip" and drips_for < request.timeout:
                    await send(pool, request)
                    assert trio.current_time() - began == pytest.approx(drips_for), at
                else:
                    with pytest.raises(ConnectionLostError if how == "reset" else RequestTimeoutError):
                        await send(pool, request)
                    assert trio.current_time() - began == pytest.approx(0 if how == "reset" else request.timeout), at
                    await trio.testing.wait_all_tasks_blocked()
                    assert transport.open == 0, at
                retried = trio.current_time()
                await send(pool, request)
                assert trio.current_time() == retried, at
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
                await send(pool, REQUESTS[Api.METADATA])
            assert trio.current_time() == pytest.approx(CONFIG.connect_timeout)
            await send(pool, REQUESTS[Api.METADATA])
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
