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
    local, remote = memory_stream_pair()
    connection = Connection(local, "peer:9092", "test", max_response_bytes)
    async with trio.open_nursery() as nursery:
        await nursery.start(connection.run)
        yield connection, remote
        connection.close()


async def next_request(stream: ServerStream) -> tuple[int, int, int]:
    """Return the API key, version and correlation id of the next request."""
    (size,) = struct.unpack(">i", await exactly(stream, 4))
    key, version, correlation_id = struct.unpack_from(">hhi", await exactly(stream, size))
    return key, version, correlation_id


async def exactly(stream: ServerStream, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += await stream.receive_some(count - len(data))
    return data


def encoded(response: Any, correlation_id: int) -> bytes:
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
        await stream.send_all(encoded(versions(*rows), correlation_id))


async def record_failure(call: Callable[[], Any], into: list[BaseException]) -> None:
    try:
        await call()
    except SarameyaError as error:
        into.append(error)


async def test_newest_common_version_is_used() -> None:
    async with connected() as (connection, stream):
        await negotiate(connection, stream, (Api.HEARTBEAT, 0, 3), (Api.FETCH, 4, 99))
        assert connection.version_of(Api.HEARTBEAT) == 3
        assert connection.version_of(Api.FETCH) == 17


async def test_api_missing_at_the_broker_is_named() -> None:
    async with connected() as (connection, stream):
        await negotiate(connection, stream, (Api.FETCH, 90, 99))
        with pytest.raises(UnsupportedVersionError, match="does not serve HEARTBEAT"):
            await connection.request(HeartbeatRequest, 1.0, **HEARTBEAT)
        with pytest.raises(UnsupportedVersionError, match=r"FETCH: the broker serves versions 90\.\.99"):
            connection.version_of(Api.FETCH)


async def test_broker_rejecting_api_versions_gets_version_0() -> None:
    async with connected() as (connection, stream), trio.open_nursery() as nursery:
        nursery.start_soon(connection.negotiate, 10.0)
        _, version, correlation_id = await next_request(stream)
        assert version == 3
        await stream.send_all(encoded(versions((Api.API_VERSIONS, 0, 2), error=35), correlation_id))
        _, version, correlation_id = await next_request(stream)
        assert version == 0
        response = ApiVersionsResponse[0](
            error_code=0, api_keys=[ApiVersionsResponse.ApiVersion(api_key=12, min_version=0, max_version=1)]
        )
        await stream.send_all(encoded(response, correlation_id))
        await trio.testing.wait_all_tasks_blocked()
        assert connection.version_of(Api.HEARTBEAT) == 1


async def test_pipelined_requests_get_their_own_responses() -> None:
    async with connected() as (connection, stream):
        await negotiate(connection, stream, (Api.HEARTBEAT, 0, 4))
        codes: dict[int, int] = {}

        async def send_heartbeat(number: int) -> None:
            codes[number] = (await connection.request(HeartbeatRequest, 60.0, **HEARTBEAT)).error_code

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(send_heartbeat, number)
                await trio.testing.wait_all_tasks_blocked()
            requests = [await next_request(stream) for _ in range(5)]
            assert connection.in_flight == 5
            frames = b"".join(
                encoded(HeartbeatResponse[version](error_code=100 + i), correlation_id)
                for i, (_, version, correlation_id) in enumerate(requests)
            )
            for at in range(0, len(frames), 3):  # in small pieces
                await stream.send_all(frames[at : at + 3])
        assert codes == {number: 100 + number for number in range(5)}


async def test_late_response_ends_the_connection_with_a_timeout(autojump_clock: MockClock) -> None:
    async with connected() as (connection, stream):
        await negotiate(connection, stream, (Api.HEARTBEAT, 0, 4))
        behind: list[BaseException] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(record_failure, lambda: connection.request(HeartbeatRequest, 60.0, **HEARTBEAT), behind)
            with pytest.raises(RequestTimeoutError, match="no response to HeartbeatRequest in 5 s"):
                await connection.request(HeartbeatRequest, 5.0, **HEARTBEAT)
        assert trio.current_time() == pytest.approx(5.0)
        assert not connection.is_open
        assert isinstance(behind[0], RequestTimeoutError), "a request behind a late response times out, too"


async def test_each_request_has_its_own_deadline(
    autojump_clock: MockClock,
) -> None:
    async with connected() as (connection, stream):
        await negotiate(connection, stream, (Api.HEARTBEAT, 0, 4))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: connection.request(HeartbeatRequest, 5.0, **HEARTBEAT))
            _, version, correlation_id = await next_request(stream)
            await stream.send_all(encoded(HeartbeatResponse[version](error_code=0), correlation_id))
        with trio.move_on_after(1.0):
            await connection.request(HeartbeatRequest, 7.0, **HEARTBEAT)
        failures: list[BaseException] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                record_failure, lambda: connection.request(HeartbeatRequest, 60.0, **HEARTBEAT), failures
            )
            await trio.sleep(20.0)
            assert connection.is_open
            with pytest.raises(RequestTimeoutError, match="no response to HeartbeatRequest in 10 s"):
                await connection.request(HeartbeatRequest, 10.0, **HEARTBEAT)
            assert trio.current_time() == pytest.approx(31.0)
        assert len(failures) == 1


async def test_cancelled_request_keeps_the_connection() -> None:
    async with connected() as (connection, stream):
        await negotiate(connection, stream, (Api.HEARTBEAT, 0, 4))
        with trio.CancelScope() as scope:
            scope.cancel()
            await connection.request(HeartbeatRequest, 60.0, **HEARTBEAT)
        _, version, first = await next_request(stream)
        async with trio.open_nursery() as nursery:
            results: list[int] = []

            async def send_heartbeat() -> None:
                results.append((await connection.request(HeartbeatRequest, 60.0, **HEARTBEAT)).error_code)

            nursery.start_soon(send_heartbeat)
            _, _, second = await next_request(stream)
            await stream.send_all(encoded(HeartbeatResponse[version](error_code=1), first))
            await stream.send_all(encoded(HeartbeatResponse[version](error_code=2), second))
        assert results == [2]


async def test_closed_connection_fails_all_waiting_requests() -> None:
    async with connected() as (connection, stream):
        await negotiate(connection, stream, (Api.HEARTBEAT, 0, 4))
        errors: list[BaseException] = []
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(
                    record_failure, lambda: connection.request(HeartbeatRequest, 60.0, **HEARTBEAT), errors
                )
            await trio.testing.wait_all_tasks_blocked()
            await stream.aclose()
        assert len(errors) == 3
        assert all(isinstance(e, ConnectionLostError) for e in errors)
        assert len({id(e) for e in errors}) == 3, "each waiting request has its own exception"
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
async def test_garbage_response_is_a_protocol_error(garbage: bytes) -> None:
    async with connected() as (connection, stream):
        errors: list[BaseException] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(record_failure, lambda: connection.negotiate(10.0), errors)
            await next_request(stream)
            await stream.send_all(garbage)
        assert isinstance(errors[0], ProtocolError)
        assert str(errors[0]).startswith("peer:9092: ")
        assert not connection.is_open


async def test_unrequested_response_is_a_protocol_error() -> None:
    async with connected() as (connection, stream):
        await negotiate(connection, stream, (Api.HEARTBEAT, 0, 4))
        await stream.send_all(encoded(HeartbeatResponse[4](error_code=0), 9))
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
    local, remote = trio.socket.socketpair()
    connection = Connection(trio.SocketStream(local), "peer:9092", "test", 1 << 20)
    connection._versions = {Api.HEARTBEAT: VersionRange(0, 4)}
    request = connection.request(HeartbeatRequest, 1.0, **HEARTBEAT)
    request.send(None)  # its first step
    with remote:
        assert (await remote.recv(100))[4:6] == struct.pack(">h", Api.HEARTBEAT)
    request.close()
    local.close()


async def test_requests_larger_than_the_socket_buffer_keep_their_order() -> None:
    local, remote = trio.socket.socketpair()
    connection = Connection(trio.SocketStream(local), "peer:9092", "test", 1 << 20)
    connection._versions = {Api.HEARTBEAT: VersionRange(0, 4)}
    async with trio.open_nursery() as nursery:
        await nursery.start(connection.run)
        for generation in range(200):

            async def send_heartbeat(generation: int = generation) -> None:
                fields = {**HEARTBEAT, "generation_id": generation, "member_id": "m" * 30_000}
                with pytest.raises(ConnectionLostError):
                    await connection.request(HeartbeatRequest, 60.0, **fields)

            nursery.start_soon(send_heartbeat)
            await trio.lowlevel.checkpoint()
        stream = trio.SocketStream(remote)
        found = [(await next_request(stream))[2] for _ in range(200)]  # type: ignore[arg-type]
        connection.close()
    assert found == sorted(found)
    assert len(set(found)) == 200
    await stream.aclose()
