"""One connection's bytes, client side: requests to frames, frames to answers. Pure (no sockets, no clock).

The schema-driven messages are kafka-python's; the framing is ours rather than its `KafkaProtocol`, because that
one logs a whole undecodable answer as an error of its own and lets whatever its decoder raised escape. Here a
peer that does not speak Kafka meets one typed ProtocolError.

A broker answers a connection's requests in their order, so answers are matched by the order in which requests
were sent, and their correlation id is checked against it.
"""

from __future__ import annotations

import io
import struct
from collections import deque
from functools import cache
from typing import Any

from kafka.protocol.api_message import ApiMessage

from sarameya.errors import ProtocolError
from sarameya.protocol.versions import Api

_SIZE = struct.Struct(">i")
_SMALLEST_ANSWER = 4
"""The correlation id alone."""


class ClientWire:
    """Frames requests and unframes answers. Feed it with `receive`, drain it with `data_to_send`."""

    def __init__(self, client_id: str, max_response_bytes: int) -> None:
        self._client_id = client_id
        self._max_response_bytes = max_response_bytes
        self._correlation_id = 0
        self._awaited: deque[tuple[int, Any]] = deque()
        self._outgoing: list[bytes] = []
        self._buffer = bytearray()

    @property
    def in_flight(self) -> int:
        """Requests sent and not yet answered."""
        return len(self._awaited)

    def send(self, request: ApiMessage) -> int:
        """Queue a versioned request; returns its correlation id."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        request.with_header(correlation_id=self._correlation_id, client_id=self._client_id)
        self._outgoing.append(bytes(request.encode(header=True, framed=True)))
        self._awaited.append((self._correlation_id, request.header.get_response_class()))
        return self._correlation_id

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
        expected, response_class = self._awaited.popleft()
        header = io.BytesIO(frame)
        try:
            correlation_id = response_class.parse_header(header).correlation_id
            if correlation_id != expected:
                raise ProtocolError(f"the peer answered request {correlation_id}, where {expected} was due")
            return expected, _decode_body(response_class, memoryview(frame)[header.tell() :])
        except ProtocolError:
            raise
        except Exception as error:  # hostile bytes make the schema decoder raise nearly anything
            raise ProtocolError(f"{response_class.__name__}: the answer does not decode: {error!r}") from error


def _decode_body(response_class: Any, body: memoryview) -> Any:
    """The answer's body: all of it, nothing behind it, and no null where the schema allows none.

    `ApiMessage.decode` does not tell where it stopped, and takes the bytes that are there for those that a length
    announced: a cut-off answer would pass as a short one. So the compiled decoder beneath it is called.
    """
    version = response_class._class_version
    if response_class.API_KEY == Api.API_VERSIONS:  # has a rule of its own for the version of an error (KIP-511)
        answer = response_class.decode(body)
    else:
        flexible = response_class.flexible_version_q(version)
        decode = response_class._struct.compiled_decode_from(
            version, compact=flexible, tagged=flexible, data_class=response_class[None]
        )
        answer, end = decode(body, 0)
        if end != len(body):
            raise ProtocolError(f"{response_class.__name__}: {end} bytes were announced, {len(body)} came")
    _refuse_nulls(answer, _never_null(response_class))
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


@cache
def _never_null(response_class: Any) -> _Fields:
    return _fields_never_null(response_class._struct, response_class._class_version)


def _fields_never_null(struct: Any, version: int) -> _Fields:
    return [
        (field.name, _fields_never_null(field.array_of, version) if field.is_struct_array() else None)
        for field in struct._fields
        if field.for_version_q(version) and not field.nullable_for_version_q(version) and _has_a_null(field)
    ]


def _has_a_null(field: Any) -> bool:
    """Whether the field's type has a null on the wire; kafka-python also says None for a bit field that is unset."""
    return field.is_struct_array() or field.is_array() or field.type_str in ("string", "bytes")
