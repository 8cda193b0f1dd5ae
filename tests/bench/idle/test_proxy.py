"""Counted traffic through a proxy."""

from __future__ import annotations

import struct
from functools import partial

import trio
from trio.testing import wait_all_tasks_blocked

from bench.idle.proxy import HOST, Proxy
from bench.idle.requests import FETCH, Traffic
from tests.integration.real_kafka.node import free_ports

REQUEST = struct.pack(">ih", 5, FETCH) + b"abc"


async def answer(stream: trio.SocketStream) -> None:
    async for _ in stream:
        await stream.send_all(b"an answer")


async def test_bytes_pass_in_both_directions_and_are_counted() -> None:
    port, target = free_ports(2)
    proxy = Proxy(port, target)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(trio.serve_tcp, answer, target, host=HOST))
            await nursery.start(proxy.serve)
            async with await trio.open_tcp_stream(HOST, port) as client:
                await client.send_all(REQUEST)
                assert await client.receive_some() == b"an answer"
            nursery.cancel_scope.cancel()

    assert proxy.traffic == Traffic(requests=1, fetches=1, bytes_sent=len(REQUEST), bytes_received=9)


async def test_closed_side_closes_the_other() -> None:
    port, target = free_ports(2)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            ended = trio.Event()

            async def hang_up(stream: trio.SocketStream) -> None:
                await stream.receive_some()
                ended.set()

            await nursery.start(partial(trio.serve_tcp, hang_up, target, host=HOST))
            await nursery.start(Proxy(port, target).serve)
            async with await trio.open_tcp_stream(HOST, port) as client:
                await client.send_all(REQUEST)
                await ended.wait()
                assert await client.receive_some() == b""
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
