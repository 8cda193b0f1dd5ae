"""One connection's bytes, client side: requests to frames, frames to answers. Pure (no sockets, no clock).

The schema-driven messages are kafka-python's, decoded by `bodies`; the framing is ours rather than its
`KafkaProtocol`, because that one logs a whole undecodable answer as an error of its own and lets whatever its decoder
raised escape. Here a peer that does not speak Kafka meets one typed ProtocolError.

A broker answers a connection's requests in their order, so answers are matched by the order in which requests
were sent, and their correlation id is checked against it.
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
from sarameya.protocol.bodies import Decode, body_decoder
from sarameya.protocol.frames import FrameBuffer
from sarameya.protocol.tagged_fields import NO_TAGS, behind_tags
from sarameya.protocol.versions import Api

_SIZE = _CORRELATION_ID = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")
"""A request's: API, version, correlation id, length of the client id, which follows."""
_SMALLEST_ANSWER = 4
"""The correlation id alone."""


class ClientWire:
    """Frames requests and unframes answers.

    Feed it through `get_buffer` and `buffer_updated` (or `receive`, which copies), drain it with `data_to_send`.
    """

    def __init__(self, client_id: str, max_response_bytes: int) -> None:
        self._client_id = client_id.encode()
        self._correlation_id = 0
        self._awaited: deque[tuple[int, _Answer]] = deque()
        self._outgoing: list[bytes] = []
        self._incoming = FrameBuffer(_SMALLEST_ANSWER, max_response_bytes)

    @property
    def in_flight(self) -> int:
        """Requests sent and not yet answered."""
        return len(self._awaited)

    def send(self, request: ApiMessage) -> int:
        """Queue a versioned request; returns its correlation id."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        self._outgoing.append(self._frame(request))
        self._awaited.append((self._correlation_id, _answer_to(request.API_KEY, request.API_VERSION)))
        return self._correlation_id

    def _frame(self, request: ApiMessage) -> bytes:
        """The request behind its header. (kafka-python's own header costs as much as all the rest of a heartbeat.)"""
        version, client_id = request.API_VERSION, self._client_id
        body = request.encode()
        tags = NO_TAGS if request.flexible_version_q(version) else b""
        size = _HEADER.size + len(client_id) + len(tags) + len(body)
        header = _HEADER.pack(request.API_KEY, version, self._correlation_id, len(client_id))
        return b"".join((_SIZE.pack(size), header, client_id, tags, body))

    def data_to_send(self) -> bytes:
        """Everything queued since the last call."""
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        return data

    def get_buffer(self) -> memoryview:
        """Where the next bytes that come are to be put. To be released before `buffer_updated` is called."""
        return self._incoming.get_buffer()

    @property
    def awaited(self) -> int:
        """How many bytes are sure to come, whatever comes behind them; at least one."""
        return self._incoming.awaited

    def buffer_updated(self, count: int) -> list[tuple[int, Any]]:
        """So many bytes were put there; the (correlation id, answer) pairs they complete.

        Raises ProtocolError for a frame beyond the size limit, an answer nobody asked for, or bytes that
        do not decode; the connection is then of no further use.
        """
        return [self._decode(frame) for frame in self._incoming.buffer_updated(count)]

    def receive(self, data: bytes | bytearray) -> list[tuple[int, Any]]:
        """Take in bytes of any length; what they complete, as `buffer_updated` tells it, and raises."""
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
            raise ProtocolError("the peer sent an answer that nothing had asked for")
        expected, answer = self._awaited.popleft()
        try:
            (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
            if correlation_id != expected:
                raise ProtocolError(f"the peer answered request {correlation_id}, where {expected} was due")
            start = behind_tags(frame, _CORRELATION_ID.size) if answer.has_tagged_header else _CORRELATION_ID.size
            body = memoryview(frame)[start:]
            decoded, end = answer.decode(body)
            if end != len(body):
                raise ProtocolError(f"{answer.name}: {end} bytes were announced, {len(body)} came")
            return expected, decoded
        except ProtocolError:
            raise
        except (ValueError, IndexError) as error:
            raise ProtocolError(f"{answer.name}: the answer does not decode: {error}") from error


@attrs.frozen(slots=True)
class _Answer:
    """All that is to be known of an answer of one API in one version before it comes; found out once."""

    name: str
    has_tagged_header: bool
    decode: Decode


@cache
def _answer_to(api: int, version: int) -> _Answer:
    message = RequestHeader(request_api_key=api, request_api_version=version).get_response_class()
    decode = body_decoder(message, version)
    if api == Api.API_VERSIONS:
        # This answer may be in another version than was asked for, so its header has no tags ever.
        return _Answer(message.__name__, False, _versions_decoder(decode, body_decoder(message, 0)))
    return _Answer(message.__name__, message.flexible_version_q(version), decode)


def _versions_decoder(as_asked: Decode, as_refused: Decode) -> Decode:
    """For the answer to ApiVersions: whoever refuses to tell does so in version 0 (KIP-511)."""

    def decode(body: bytes | memoryview) -> tuple[Any, int]:
        return as_asked(body) if bytes(body[:2]) == b"\0\0" else as_refused(body)

    return decode
