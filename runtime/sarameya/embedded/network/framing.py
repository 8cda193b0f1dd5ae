"""The server's half of the wire format: bytes to frames to requests, and responses to bytes. Pure.

kafka-python has only the client's half, and its messages do not check the bytes of the peer. This module checks all of
them. Frames have a size limit. An unknown API or version, an incomplete body, or an unexpected null raises
ProtocolError. The server then closes that connection, as Kafka does.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import attrs

from sarameya.errors import ProtocolError
from sarameya.protocol.versions import Api, VersionRange
from sarameya.protocol.wire.bodies import body_decoder
from sarameya.protocol.wire.tagged_fields import NO_TAGS, skip_tags

DEFAULT_MAX_FRAME_SIZE = 100 * 1024 * 1024
"""Bytes; Kafka's `socket.request.max.bytes`."""

_SIZE = struct.Struct(">i")
_KEY_AND_VERSION = struct.Struct(">hh")
_HEADER = struct.Struct(">ih")
"""The correlation id and the length of the client id, which follow the key and the version."""
_CORRELATION_ID = struct.Struct(">i")

_DECODE_ERRORS = (ValueError, IndexError, struct.error)


class FrameReader:
    """Splits a stream of bytes into frames: an int32 size, then that many bytes."""

    def __init__(self, max_size: int = DEFAULT_MAX_FRAME_SIZE) -> None:
        self._max_size = max_size
        self._buffer = bytearray()

    def receive(self, data: bytes | bytearray) -> None:
        """Add bytes as they arrived, in pieces of any length."""
        self._buffer += data

    def next_frame(self) -> bytes | None:
        """Return the next whole frame without its size; None until more bytes arrive.

        Raises:
            ProtocolError: The size is negative or above the limit. The rest of the frame need not have arrived.
        """
        if len(self._buffer) < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(self._buffer)
        if not 0 <= size <= self._max_size:
            raise ProtocolError(f"the frame has {size} bytes, at most {self._max_size} are allowed")
        end = _SIZE.size + size
        if len(self._buffer) < end:
            return None
        with memoryview(self._buffer) as view:
            frame = bytes(view[_SIZE.size : end])
        del self._buffer[:end]
        return frame

    @property
    def is_empty(self) -> bool:
        """True if no incomplete frame is buffered, so that the stream may end here."""
        return not self._buffer


@attrs.frozen(slots=True)
class ReceivedRequest:
    """A request as it arrived: the fields of its header, and the decoded message."""

    api: Api
    version: int
    correlation_id: int
    client_id: str
    body: Any
    """The kafka-python message; None for an ApiVersions request of an unknown version (KIP-511)."""

    @property
    def expects_answer(self) -> bool:
        """False only for a Produce request with acks=0."""
        return self.body is None or bool(self.body.expect_response())


def decode_request(frame: bytes, messages: Mapping[Api, Any], served: Mapping[Api, VersionRange]) -> ReceivedRequest:
    """Decode the request in `frame`.

    Args:
        frame: A whole frame without its size.
        messages: kafka-python's request class of each API.
        served: The versions served of each API.

    Raises:
        ProtocolError: The frame is not one whole request of a served version.
    """
    if len(frame) < _KEY_AND_VERSION.size:
        raise ProtocolError("the request is too short for its header")
    key, version = _KEY_AND_VERSION.unpack_from(frame)
    try:
        api = Api(key)
        versions = served[api]
    except (ValueError, KeyError):
        raise ProtocolError(f"the API is not served (key {key}, version {version})") from None
    in_range = versions.low <= version <= versions.high
    if not in_range and api is not Api.API_VERSIONS:
        raise ProtocolError(f"{api.name} version {version} is not served (served: {versions})")
    message = messages[api]
    try:
        correlation_id, client_id, end = _decode_header(frame, message.flexible_version_q(version))
        # Kafka ignores bytes after the body, too.
        body, _ = body_decoder(message, version)(memoryview(frame)[end:]) if in_range else (None, 0)
    except _DECODE_ERRORS as error:
        raise ProtocolError(f"{api.name} version {version}: {error}") from None
    return ReceivedRequest(api, version, correlation_id, client_id, body)


def encode_answer(request: ReceivedRequest, answer: Any) -> bytes:
    """Encode `answer`, a kafka-python response to `request`, as a frame."""
    # A client that requests ApiVersions may not know this version, so errors are encoded in version 0 (KIP-511).
    is_versions = request.api is Api.API_VERSIONS
    version = 0 if is_versions and answer.error_code else request.version
    body = answer.encode(version)
    # An ApiVersions response never has tagged fields in its header, since the client may not support them.
    header = b"" if is_versions or not answer.flexible_version_q(version) else NO_TAGS
    size = _CORRELATION_ID.size + len(header) + len(body)
    return b"".join((_SIZE.pack(size), _CORRELATION_ID.pack(request.correlation_id), header, body))


def _decode_header(frame: bytes, is_flexible: bool) -> tuple[int, str, int]:
    """Return the correlation id, the client id, and the end of the header.

    kafka-python's own header decoder would take a third of the time that a heartbeat takes.
    """
    correlation_id, length = _HEADER.unpack_from(frame, _KEY_AND_VERSION.size)
    start = _KEY_AND_VERSION.size + _HEADER.size
    end = start + max(length, 0)  # -1: null
    if length < -1 or end > len(frame):
        raise ValueError(f"the client id has {length} bytes")
    client_id = frame[start:end].decode()
    return correlation_id, client_id, skip_tags(frame, end) if is_flexible else end
