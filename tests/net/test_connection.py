"""Connection: pipelining, deadlines, and peers that do not speak Kafka. Virtual time, in-memory streams."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from kafka.protocol.consumer import HeartbeatRequest, HeartbeatResponse
from kafka.protocol.metadata import ApiVersionsResponse
from trio.testing import MemoryReceiveStream, MemorySendStream, MockClock, memory_stream_pair

from sarameya.errors import (
    ConnectionLostError,
    ProtocolError,
    RequestTimeoutError,
    SarameyaError,
    UnsupportedVersionError,
)
from sarameya.net.connection import Connection
from sarameya.protocol.versions import Api, VersionRange

ServerStream = trio.StapledStream[MemorySendStream, MemoryReceiveStream]
HEARTBEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}


@asynccontextmanager
async def connected(max_response_bytes: int = 1 << 20) -> AsyncIterator[tuple[Connection, ServerStream]]:
    ours, theirs = memory_stream_pair()
    connection = Connection(ours, "peer:9092", "test", max_response_bytes)
    async with trio.open_nursery() as nursery:
        await nursery.start(connection.run)
        yield connection, theirs
        connection.close()


async def next_request(stream: ServerStream) -> tuple[int, int, int]:
    """(api key, version, correlation id) of the next request."""
    (size,) = struct.unpack(">i", await exactly(stream, 4))
    key, version, correlation_id = struct.unpack_from(">hhi", await exactly(stream, size))
    return key, version, correlation_id


async def exactly(stream: ServerStream, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += await stream.receive_some(count - len(data))
    return data


def answer(response: Any, correlation_id: int) -> bytes:
    response.with_header(correlation_id=correlation_id)
    return bytes(response.encode(header=True, framed=True))


def versions(*rows: tuple[int, int, int], error: int = 0) -> Any:
    return ApiVersionsResponse[3 if not error else 0](
        error_code=error,
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in rows
        ],
    )


async def negotiate(connection: Connection, stream: ServerStream, *rows: tuple[int, int, int]) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.negotiate, 10.0)
        _, _, correlation_id = await next_request(stream)
        await stream.send_all(answer(versions(*rows), correlation_id))


async def failing(call: Callable[[], Any], into: list[BaseException]) -> None:
    try:
        await call()
    except SarameyaError as error:
        into.append(error)


async def test_newest_common_version_is_spoken() -> None:
    async with connected() as (connection, stream):
        await negotiate(connection, stream, (Api.HEARTBEAT, 0, 3), (Api.FETCH, 4, 99))
        assert connection.version_of(Api.HEARTBEAT) == 3
        assert connection.version_of(Api.FETCH) == 17


async def test_api_that_the_broker_lacks_is_named() -> None:
    async with connected() as (connection, stream):
        await negotiate(connection, stream, (Api.FETCH, 90, 99))
        with pytest.raises(UnsupportedVersionError, match="does not serve HEARTBEAT"):
            await connection.request(HeartbeatRequest, 1.0, **HEARTBEAT)
        with pytest.raises(UnsupportedVersionError, match=r"FETCH: the broker serves versions 90\.\.99"):
            connection.version_of(Api.FETCH)


async def test_broker_rejecting_api_versions_gets_the_oldest() -> None:
    async with connected() as (connection, stream), trio.open_nursery() as nursery:
        nursery.start_soon(connection.negotiate, 10.0)
        _, version, correlation_id = await next_request(stream)
        assert version == 3
        await stream.send_all(answer(versions((Api.API_VERSIONS, 0, 2), error=35), correlation_id))
        _, version, correlation_id = await next_request(stream)
        assert version == 0
        response = ApiVersionsResponse[0](
            error_code=0, api_keys=[ApiVersionsResponse.ApiVersion(api_key=12, min_version=0, max_version=1)]
        )
        await stream.send_all(answer(response, correlation_id))
        await trio.testing.wait_all_tasks_blocked()
        assert connection.version_of(Api.HEARTBEAT) == 1


async def test_several_requests_are_in_flight_and_each_gets_its_answer() -> None:
    async with connected() as (connection, stream):
        await negotiate(connection, stream, (Api.HEARTBEAT, 0, 4))
        codes: dict[int, int] = {}

        async def ask(number: int) -> None:
            codes[number] = (await connection.request(HeartbeatRequest, 60.0, **HEARTBEAT)).error_code

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(ask, number)
                await trio.testing.wait_all_tasks_blocked()
            requests = [await next_request(stream) for _ in range(5)]
            assert connection.in_flight == 5
            frames = b"".join(
                answer(HeartbeatResponse[version](error_code=100 + i), correlation_id)
                for i, (_, version, correlation_id) in enumerate(requests)
            )
            for at in range(0, len(frames), 3):  # in drips
                await stream.send_all(frames[at : at + 3])
        assert codes == {number: 100 + number for number in range(5)}


async def test_late_answer_ends_the_connection_with_a_timeout(autojump_clock: MockClock) -> None:
    async with connected() as (connection, stream):
        await negotiate(connection, stream, (Api.HEARTBEAT, 0, 4))
        behind: list[BaseException] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(failing, lambda: connection.request(HeartbeatRequest, 60.0, **HEARTBEAT), behind)
            with pytest.raises(RequestTimeoutError, match="no response to HeartbeatRequest in 5 s"):
                await connection.request(HeartbeatRequest, 5.0, **HEARTBEAT)
        assert trio.current_time() == pytest.approx(5.0)
        assert not connection.is_open
        assert isinstance(behind[0], RequestTimeoutError), "what stands behind a late answer is late too"


async def test_each_request_has_its_own_deadline(
    autojump_clock: MockClock,
) -> None:
    async with connected() as (connection, stream):
        await negotiate(connection, stream, (Api.HEARTBEAT, 0, 4))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: connection.request(HeartbeatRequest, 5.0, **HEARTBEAT))
            _, version, correlation_id = await next_request(stream)
            await stream.send_all(answer(HeartbeatResponse[version](error_code=0), correlation_id))
        with trio.move_on_after(1.0):
            await connection.request(HeartbeatRequest, 7.0, **HEARTBEAT)
        failures: list[BaseException] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(failing, lambda: connection.request(HeartbeatRequest, 60.0, **HEARTBEAT), failures)
            await trio.sleep(20.0)
            assert connection.is_open
            with pytest.raises(RequestTimeoutError, match="no response to HeartbeatRequest in 10 s"):
                await connection.request(HeartbeatRequest, 10.0, **HEARTBEAT)
            assert trio.current_time() == pytest.approx(31.0)
        assert len(failures) == 1


async def test_cancelled_caller_gives_up_its_answer_not_the_connection() -> None:
    async with connected() as (connection, stream):
        await negotiate(connection, stream, (Api.HEARTBEAT, 0, 4))
        with trio.CancelScope() as scope:
            scope.cancel()
            await connection.request(HeartbeatRequest, 60.0, **HEARTBEAT)
        _, version, first = await next_request(stream)
        async with trio.open_nursery() as nursery:
            results: list[int] = []

            async def ask() -> None:
                results.append((await connection.request(HeartbeatRequest, 60.0, **HEARTBEAT)).error_code)

            nursery.start_soon(ask)
            _, _, second = await next_request(stream)
            await stream.send_all(answer(HeartbeatResponse[version](error_code=1), first))
            await stream.send_all(answer(HeartbeatResponse[version](error_code=2), second))
        assert results == [2]


async def test_peer_that_closes_loses_those_who_wait() -> None:
    async with connected() as (connection, stream):
        await negotiate(connection, stream, (Api.HEARTBEAT, 0, 4))
        errors: list[BaseException] = []
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(failing, lambda: connection.request(HeartbeatRequest, 60.0, **HEARTBEAT), errors)
            await trio.testing.wait_all_tasks_blocked()
            await stream.aclose()
        assert len(errors) == 3
        assert all(isinstance(e, ConnectionLostError) for e in errors)
        assert len({id(e) for e in errors}) == 3, "each waiter has an exception of its own"
        with pytest.raises(ConnectionLostError, match="peer:9092: the peer closed the connection"):
            await connection.request(HeartbeatRequest, 1.0, **HEARTBEAT)


GARBAGE = {
    "text": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "negative size": struct.pack(">i", -1),
    "size zero": struct.pack(">i", 0),
    "giant frame": struct.pack(">i", 2**31 - 1),
    "wrong correlation id": struct.pack(">ii", 6, 77) + b"\x00\x00",
    "body that does not decode": struct.pack(">ii", 7, 1) + b"\x00\x00\xff",
    "cut off": struct.pack(">iih", 4 + 2 + 4 + 6, 1, 0) + struct.pack(">i", 5) + b"\x00\x01\x00\x00\x00\x01",
    "empty body": struct.pack(">ii", 4, 1),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
async def test_peer_that_answers_garbage_is_a_protocol_error(garbage: bytes) -> None:
    async with connected() as (connection, stream):
        errors: list[BaseException] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(failing, lambda: connection.negotiate(10.0), errors)
            await next_request(stream)
            await stream.send_all(garbage)
        assert isinstance(errors[0], ProtocolError)
        assert str(errors[0]).startswith("peer:9092: ")
        assert not connection.is_open


async def test_answer_that_nobody_asked_for_is_a_protocol_error() -> None:
    async with connected() as (connection, stream):
        await negotiate(connection, stream, (Api.HEARTBEAT, 0, 4))
        await stream.send_all(answer(HeartbeatResponse[4](error_code=0), 9))
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(connection.cause_of_end, ProtocolError)


async def test_unencodable_field_keeps_the_connection() -> None:
    async with connected() as (connection, stream):
        await negotiate(connection, stream, (Api.HEARTBEAT, 0, 4))
        with pytest.raises(ProtocolError, match="cannot be encoded"):
            await connection.request(HeartbeatRequest, 1.0, group_id="g", generation_id=2**40, member_id="m")
        assert connection.is_open


# -- over a socket -----------------------------------------------------------------------------------------


async def test_request_is_sent_before_other_tasks_run() -> None:
    ours, theirs = trio.socket.socketpair()
    connection = Connection(trio.SocketStream(ours), "peer:9092", "test", 1 << 20)
    connection._versions = {Api.HEARTBEAT: VersionRange(0, 4)}
    request = connection.request(HeartbeatRequest, 1.0, **HEARTBEAT)
    request.send(None)  # its first step
    with theirs:
        assert (await theirs.recv(100))[4:6] == struct.pack(">h", Api.HEARTBEAT)
    request.close()
    ours.close()


async def test_requests_larger_than_the_socket_keep_their_order() -> None:
    ours, theirs = trio.socket.socketpair()
    connection = Connection(trio.SocketStream(ours), "peer:9092", "test", 1 << 20)
    connection._versions = {Api.HEARTBEAT: VersionRange(0, 4)}
    async with trio.open_nursery() as nursery:
        await nursery.start(connection.run)
        for generation in range(200):

            async def ask(generation: int = generation) -> None:
                fields = {**HEARTBEAT, "generation_id": generation, "member_id": "m" * 30_000}
                with pytest.raises(ConnectionLostError):
                    await connection.request(HeartbeatRequest, 60.0, **fields)

            nursery.start_soon(ask)
            await trio.lowlevel.checkpoint()
        stream = trio.SocketStream(theirs)
        found = [(await next_request(stream))[2] for _ in range(200)]  # type: ignore[arg-type]
        connection.close()
    assert found == sorted(found)
    assert len(set(found)) == 200
    await stream.aclose()
