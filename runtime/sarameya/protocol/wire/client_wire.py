"""Bytes of one client connection: requests to frames, frames to responses. Pure (no sockets, no clock).

The schemas of the messages are kafka-python's, and `bodies` decodes them. kafka-python's `KafkaProtocol` is not used
for the framing: it logs each undecodable response in full, and raises any exception of its decoder. Here a peer that
does not speak Kafka causes one ProtocolError.

A broker answers the requests of a connection in order. Responses are matched by the order of the requests, and their
correlation ids are checked against it.
"""

from __future__ import annotations

import struct
from collections import deque
from functools import cache
from typing import Any

import attrs
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.api_message import ApiMessage

from sarameya.errors import ProtocolError
from sarameya.protocol.versions import Api
from sarameya.protocol.wire.bodies import Decode, body_decoder
from sarameya.protocol.wire.frames import FrameBuffer
from sarameya.protocol.wire.tagged_fields import NO_TAGS, skip_tags

_SIZE = _CORRELATION_ID = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")
"""Request header: API, version, correlation id, length of the client id that follows."""
_SMALLEST_ANSWER = 4
"""Bytes of the correlation id alone."""


class ClientWire:
    """Encoder of requests and decoder of responses.

    Pass received bytes with `get_buffer` and `buffer_updated`, or with `receive`, which copies them. Take the bytes to
    send from `data_to_send`.
    """

    def __init__(self, client_id: str, max_response_bytes: int) -> None:
        self._client_id = client_id.encode()
        self._correlation_id = 0
        self._awaited: deque[tuple[int, _Answer]] = deque()
        self._outgoing: list[bytes] = []
        self._incoming = FrameBuffer(_SMALLEST_ANSWER, max_response_bytes)

    @property
    def in_flight(self) -> int:
        """Number of requests without a response yet."""
        return len(self._awaited)

    def send(self, request: ApiMessage) -> int:
        """Queue a versioned request and return its correlation id."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        self._outgoing.append(self._frame(request))
        self._awaited.append((self._correlation_id, _answer_to(request.API_KEY, request.API_VERSION)))
        return self._correlation_id

    def _frame(self, request: ApiMessage) -> bytes:
        """Return the frame of a request. kafka-python's header would cost as much as the rest of a heartbeat."""
        version, client_id = request.API_VERSION, self._client_id
        body = request.encode()
        tags = NO_TAGS if request.flexible_version_q(version) else b""
        size = _HEADER.size + len(client_id) + len(tags) + len(body)
        header = _HEADER.pack(request.API_KEY, version, self._correlation_id, len(client_id))
        return b"".join((_SIZE.pack(size), header, client_id, tags, body))

    def data_to_send(self) -> bytes:
        """Return all bytes queued since the last call."""
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        return data

    def get_buffer(self) -> memoryview:
        """Return the buffer for the next received bytes. Release it before `buffer_updated` is called."""
        return self._incoming.get_buffer()

    @property
    def awaited(self) -> int:
        """Number of bytes that are certain to arrive: the rest of the current frame or header, at least one byte."""
        return self._incoming.awaited

    def buffer_updated(self, count: int) -> list[tuple[int, Any]]:
        """Return the (correlation id, response) pairs that `count` more bytes complete.

        Raises:
            ProtocolError: A frame is larger than the limit, matches no request, or cannot be decoded. Close the
                connection.
        """
        return [self._decode(frame) for frame in self._incoming.buffer_updated(count)]

    def receive(self, data: bytes | bytearray) -> list[tuple[int, Any]]:
        """Copy `data`, of any length, into the buffer; return and raise as `buffer_updated` does."""
        answers: list[tuple[int, Any]] = []
        while data:
            with self.get_buffer() as buffer:
                count = min(len(data), len(buffer))
                buffer[:count] = data[:count]
            answers += self.buffer_updated(count)
            data = data[count:]
        return answers

    def _decode(self, frame: memoryview) -> tuple[int, Any]:
        if not self._awaited:
            raise ProtocolError("the peer sent a response without a request")
        expected, answer = self._awaited.popleft()
        try:
            (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
            if correlation_id != expected:
                raise ProtocolError(f"the peer answered request {correlation_id} instead of {expected}")
            start = skip_tags(frame, _CORRELATION_ID.size) if answer.has_tagged_header else _CORRELATION_ID.size
            body = memoryview(frame)[start:]
            decoded, end = answer.decode(body)
            if end != len(body):
                raise ProtocolError(f"{answer.name}: the response has {len(body)} bytes instead of {end}")
            return expected, decoded
        except ProtocolError:
            raise
        except (ValueError, IndexError) as error:
            raise ProtocolError(f"{answer.name}: the response cannot be decoded: {error}") from error


@attrs.frozen(slots=True)
class _Answer:
    """Format of the response of one API in one version. Computed once, before the response arrives."""

    name: str
    has_tagged_header: bool
    decode: Decode


@cache
def _answer_to(api: int, version: int) -> _Answer:
    message = RequestHeader(request_api_key=api, request_api_version=version).get_response_class()
    decode = body_decoder(message, version)
    if api == Api.API_VERSIONS:
        # The response may have another version than the request, so its header never has tags.
        return _Answer(message.__name__, False, _versions_decoder(decode, body_decoder(message, 0)))
    return _Answer(message.__name__, message.flexible_version_q(version), decode)


def _versions_decoder(requested: Decode, version_0: Decode) -> Decode:
    """Return the decoder of ApiVersions responses: a broker that refuses the version answers in version 0 (KIP-511)."""

    def decode(body: bytes | memoryview) -> tuple[Any, int]:
        has_error = bytes(body[:2]) != b"\0\0"
        return version_0(body) if has_error else requested(body)

    return decode
