"""The server's half of the wire: bytes -> frames -> requests, and answers -> bytes. Pure.

kafka-python has the client's half only, and its messages trust the other side. Here nothing is trusted: frames are
bounded, an unknown API or version, a body that is cut off, a null where the schema has none: each becomes a
ProtocolError, upon which the server closes that connection, as Kafka does.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import attrs

from sarameya.errors import ProtocolError
from sarameya.protocol.bodies import body_decoder
from sarameya.protocol.tagged_fields import NO_TAGS, behind_tags
from sarameya.protocol.versions import Api, VersionRange

DEFAULT_MAX_FRAME_SIZE = 100 * 1024 * 1024
"""Bytes; Kafka's `socket.request.max.bytes`."""

_SIZE = struct.Struct(">i")
_KEY_AND_VERSION = struct.Struct(">hh")
_HEADER = struct.Struct(">ih")
"""What follows: the correlation id and the length of the client id."""
_CORRELATION_ID = struct.Struct(">i")

_DECODE_ERRORS = (ValueError, IndexError, struct.error)


class FrameReader:
    """Cuts a stream of bytes into frames: int32 size, then that many bytes."""

    def __init__(self, max_size: int = DEFAULT_MAX_FRAME_SIZE) -> None:
        self._max_size = max_size
        self._buffer = bytearray()

    def receive(self, data: bytes | bytearray) -> None:
        """Bytes as they arrived, in pieces of any length."""
        self._buffer += data

    def next_frame(self) -> bytes | None:
        """The next whole frame, without its size; None until more bytes arrive.

        Raises ProtocolError for a size that cannot be, before its bytes are waited for.
        """
        if len(self._buffer) < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(self._buffer)
        if not 0 <= size <= self._max_size:
            raise ProtocolError(f"a frame of {size} bytes ({self._max_size} are allowed)")
        end = _SIZE.size + size
        if len(self._buffer) < end:
            return None
        with memoryview(self._buffer) as view:
            frame = bytes(view[_SIZE.size : end])
        del self._buffer[:end]
        return frame

    @property
    def is_empty(self) -> bool:
        """Whether the stream may end here: not in the middle of a frame."""
        return not self._buffer


@attrs.frozen(slots=True)
class ReceivedRequest:
    """A request as it came: what its header says, and the message itself.

    `body` is None where the version is not served, which only ApiVersions may ask for (KIP-511).
    """

    api: Api
    version: int
    correlation_id: int
    client_id: str
    body: Any

    @property
    def expects_answer(self) -> bool:
        """Only a Produce with acks=0 does not."""
        return self.body is None or bool(self.body.expect_response())


def decode_request(frame: bytes, messages: Mapping[Api, Any], served: Mapping[Api, VersionRange]) -> ReceivedRequest:
    """The request in `frame`, as one of `messages` (api -> kafka-python's request class).

    Raises ProtocolError for whatever is not a whole request of a served version.
    """
    if len(frame) < _KEY_AND_VERSION.size:
        raise ProtocolError("a request without a header")
    key, version = _KEY_AND_VERSION.unpack_from(frame)
    try:
        api = Api(key)
        versions = served[api]
    except (ValueError, KeyError):
        raise ProtocolError(f"a request of an API that is not served (key {key}, version {version})") from None
    in_range = versions.low <= version <= versions.high
    if not in_range and api is not Api.API_VERSIONS:
        raise ProtocolError(f"{api.name} version {version} is not served (served: {versions})")
    message = messages[api]
    try:
        correlation_id, client_id, end = _decode_header(frame, message.flexible_version_q(version))
        # Kafka looks at no bytes behind it either.
        body, _ = body_decoder(message, version)(memoryview(frame)[end:]) if in_range else (None, 0)
    except _DECODE_ERRORS as error:
        raise ProtocolError(f"{api.name} version {version}: {error}") from None
    return ReceivedRequest(api, version, correlation_id, client_id, body)


def encode_answer(request: ReceivedRequest, answer: Any) -> bytes:
    """The frame that carries `answer`, a kafka-python response, back to who sent `request`."""
    # Whoever asks for our versions may not know the one it asked in: errors are told in the first (KIP-511).
    is_versions = request.api is Api.API_VERSIONS
    version = 0 if is_versions and answer.error_code else request.version
    body = answer.encode(version)
    # That answer's header never has tagged fields, since who reads it may not know of them.
    header = b"" if is_versions or not answer.flexible_version_q(version) else NO_TAGS
    size = _CORRELATION_ID.size + len(header) + len(body)
    return b"".join((_SIZE.pack(size), _CORRELATION_ID.pack(request.correlation_id), header, body))


def _decode_header(frame: bytes, is_flexible: bool) -> tuple[int, str, int]:
    """The correlation id, the client id, and where the header ends. (kafka-python's takes a third of a heartbeat.)"""
    correlation_id, length = _HEADER.unpack_from(frame, _KEY_AND_VERSION.size)
    start = _KEY_AND_VERSION.size + _HEADER.size
    end = start + max(length, 0)  # -1: null
    if length < -1 or end > len(frame):
        raise ValueError(f"a client id of {length} bytes")
    client_id = frame[start:end].decode()
    return correlation_id, client_id, behind_tags(frame, end) if is_flexible else end
