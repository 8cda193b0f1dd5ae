"""One connection's bytes, client side: requests to frames, frames to answers. Pure (no sockets, no clock).

The schema-driven messages are kafka-python's; the framing is ours rather than its `KafkaProtocol`, because that
one logs a whole undecodable answer as an error of its own and lets whatever its decoder raised escape. Here a
peer that does not speak Kafka meets one typed ProtocolError.

A broker answers a connection's requests in their order, so answers are matched by the order in which requests
were sent, and their correlation id is checked against it.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Any

import attrs
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.api_message import ApiMessage

from sarameya.errors import ProtocolError
from sarameya.protocol.tagged_fields import NO_TAGS, behind_tags
from sarameya.protocol.versions import Api

_SIZE = _CORRELATION_ID = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")
"""A request's: API, version, correlation id, length of the client id, which follows."""
_SMALLEST_ANSWER = 4
"""The correlation id alone."""


class ClientWire:
    """Frames requests and unframes answers. Feed it with `receive`, drain it with `data_to_send`."""

    def __init__(self, client_id: str, max_response_bytes: int) -> None:
        self._client_id = client_id.encode()
        self._max_response_bytes = max_response_bytes
        self._correlation_id = 0
        self._awaited: deque[tuple[int, _Answer]] = deque()
        self._outgoing: list[bytes] = []
        self._buffer = bytearray()

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

    def receive(self, data: bytes | bytearray) -> list[tuple[int, Any]]:
        """Take in bytes of any length; the (correlation id, answer) pairs they complete.

        Raises ProtocolError for a frame beyond the size limit, an answer nobody asked for, or bytes that
        do not decode; the connection is then of no further use.
        """
        buffer = self._buffer
        buffer += data
        answers: list[tuple[int, Any]] = []
        at = 0
        while len(buffer) - at >= _SIZE.size:
            (size,) = _SIZE.unpack_from(buffer, at)
            if not _SMALLEST_ANSWER <= size <= self._max_response_bytes:
                raise ProtocolError(
                    f"the peer announced an answer of {size} bytes (allowed are {_SMALLEST_ANSWER}.."
                    f"{self._max_response_bytes}); is there a Kafka broker at this address?"
                )
            end = at + _SIZE.size + size
            if len(buffer) < end:
                break
            answers.append(self._decode(bytes(memoryview(buffer)[at + _SIZE.size : end])))
            at = end
        del buffer[:at]
        return answers

    def _decode(self, frame: bytes) -> tuple[int, Any]:
        if not self._awaited:
            raise ProtocolError("the peer sent an answer that nothing had asked for")
        expected, answer = self._awaited.popleft()
        try:
            (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
            if correlation_id != expected:
                raise ProtocolError(f"the peer answered request {correlation_id}, where {expected} was due")
            start = behind_tags(frame, _CORRELATION_ID.size) if answer.has_tagged_header else _CORRELATION_ID.size
            return expected, _decode_body(answer, memoryview(frame)[start:])
        except ProtocolError:
            raise
        except Exception as error:  # hostile bytes make the schema decoder raise nearly anything
            raise ProtocolError(f"{answer.name}: the answer does not decode: {error!r}") from error


@attrs.frozen(slots=True)
class _Answer:
    """All that is to be known of an answer of one API in one version before it comes; found out once."""

    name: str
    has_tagged_header: bool
    decode: Callable[[memoryview, int], tuple[Any, int]] | None
    """None for ApiVersions, which has a rule of its own for the version of an error (KIP-511)."""
    response_class: Any
    never_null: _Fields


@cache
def _answer_to(api: int, version: int) -> _Answer:
    response_class = RequestHeader(request_api_key=api, request_api_version=version).get_response_class()
    flexible = response_class.flexible_version_q(version)
    decode = response_class._struct.compiled_decode_from(
        version, compact=flexible, tagged=flexible, data_class=response_class[None]
    )
    # The answer to ApiVersions may be in another version than was asked for, so its header has no tags ever.
    is_versions = api == Api.API_VERSIONS
    return _Answer(
        response_class.__name__,
        flexible and not is_versions,
        None if is_versions else decode,
        response_class,
        _fields_never_null(response_class._struct, version),
    )


def _decode_body(expected: _Answer, body: memoryview) -> Any:
    """The answer's body: all of it, nothing behind it, and no null where the schema allows none.

    `ApiMessage.decode` does not tell where it stopped, and takes the bytes that are there for those that a length
    announced: a cut-off answer would pass as a short one. So the compiled decoder beneath it is called.
    """
    if expected.decode is None:
        answer = expected.response_class.decode(body)
    else:
        answer, end = expected.decode(body, 0)
        if end != len(body):
            raise ProtocolError(f"{expected.name}: {end} bytes were announced, {len(body)} came")
    _refuse_nulls(answer, expected.never_null)
    return answer


_Fields = list[tuple[str, "_Fields | None"]]
"""Names of fields that are never null, each with the same of its items where it is an array of structs."""


def _refuse_nulls(item: Any, never_null: _Fields) -> None:
    """kafka-python decodes a null anywhere; where there can be none, whoever reads the answer expects none."""
    for name, of_items in never_null:
        value = getattr(item, name)
        if value is None:
            raise ProtocolError(f"{type(item).__name__}: {name} is null")
        if of_items is not None:
            for child in value:
                _refuse_nulls(child, of_items)


def _fields_never_null(struct: Any, version: int) -> _Fields:
    return [
        (field.name, _fields_never_null(field.array_of, version) if field.is_struct_array() else None)
        for field in struct._fields
        if field.for_version_q(version) and not field.nullable_for_version_q(version) and _has_a_null(field)
    ]


def _has_a_null(field: Any) -> bool:
    """Whether the field's type has a null on the wire; kafka-python also says None for a bit field that is unset."""
    return field.is_struct_array() or field.is_array() or field.type_str in ("string", "bytes")
