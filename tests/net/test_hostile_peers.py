"""TCP servers that are not brokers: the client raises a typed error within its timeout, and keeps its other
connections."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from random import Random

import pytest
import trio
from kafka.protocol.metadata import MetadataRequest

from sarameya import Config, ConnectionLostError, ProtocolError, RequestTimeoutError
from sarameya.embedded import EmbeddedCluster
from sarameya.net.broker_pool import BrokerPool, Purpose, open_broker_pool
from sarameya.protocol.cluster.metadata import Broker

GOOD, HOSTILE = 0, 1
CONFIG = Config(connect_timeout=0.5, max_response_bytes=1 << 20)

Serve = Callable[[trio.SocketStream], Awaitable[None]]


@asynccontextmanager
async def pool_with_hostile_broker(serve: Serve) -> AsyncIterator[BrokerPool]:
    """Yield a pool with a good broker and a hostile one, whose connections `serve` handles."""
    async with EmbeddedCluster({"orders": 1}) as cluster, trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        async with open_broker_pool(cluster.bootstrap_servers, CONFIG, lambda event: None) as pool:
            host, good_port = cluster.bootstrap_servers[0].rsplit(":", 1)
            pool.update({0: Broker(GOOD, host, int(good_port)), 1: Broker(HOSTILE, "127.0.0.1", port)})
            yield pool
        nursery.cancel_scope.cancel()


async def request_metadata(pool: BrokerPool, node: int) -> None:
    await pool.request(node, Purpose.METADATA, MetadataRequest, topics=[])


async def test_random_bytes_fail_only_their_connection() -> None:
    rng = Random(28)
    payloads: list[Callable[[], bytes]] = [
        lambda: rng.randbytes(rng.randrange(1, 2000)),
        lambda: struct.pack(">i", 200) + rng.randbytes(200),
        lambda: struct.pack(">ii", 204, 1) + rng.randbytes(200),
        lambda: struct.pack(">iih", 206, 1, 0) + rng.randbytes(200),
        lambda: b"HTTP/1.1 400 Bad Request\r\n\r\n",
        lambda: bytes.fromhex("15030300020232"),
        lambda: b"SSH-2.0-OpenSSH_9.6\r\n",
    ]

    async def serve(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            await stream.receive_some()
            await stream.send_all(rng.choice(payloads)())
            await stream.send_eof()

    async with pool_with_hostile_broker(serve) as pool:
        await request_metadata(pool, GOOD)
        connection = await pool.connection(GOOD, Purpose.METADATA)
        errors = []
        for _ in range(60):
            with pytest.raises((ProtocolError, ConnectionLostError)) as caught:
                await request_metadata(pool, HOSTILE)
            errors.append(type(caught.value))
            await request_metadata(pool, GOOD)
        typed = [kind for kind in errors if issubclass(kind, ProtocolError)]
        assert len(typed) > 40, "only a frame that is cut off by the end of the stream is a lost connection"
        assert await pool.connection(GOOD, Purpose.METADATA) is connection


@pytest.mark.parametrize("byte", [b"\0", b"\x7f", b"\xff", b"\x01"])
async def test_endless_sender_is_refused_or_timed_out(byte: bytes) -> None:
    stopped = trio.Event()

    async def serve(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            while True:
                await stream.send_all(byte * 65_536)
        stopped.set()

    async with pool_with_hostile_broker(serve) as pool:
        with pytest.raises((ProtocolError, RequestTimeoutError)):
            await request_metadata(pool, HOSTILE)
        with trio.fail_after(5):
            await stopped.wait()
        await request_metadata(pool, GOOD)


async def test_dripping_response_times_out() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            await stream.send_all(struct.pack(">ii", 1 << 20, 1))
            while True:
                await stream.send_all(b"\0")
                await trio.sleep(0.01)

    async with pool_with_hostile_broker(serve) as pool:
        began = trio.current_time()
        with pytest.raises(RequestTimeoutError):
            await request_metadata(pool, HOSTILE)
        assert trio.current_time() - began == pytest.approx(CONFIG.connect_timeout, abs=1.0)
        await request_metadata(pool, GOOD)
