"""Frames of a byte stream, received into one buffer and read in place. Pure.

A frame is its size (int32) and as many bytes. The owner of the stream receives into `get_buffer()` and calls
`buffer_updated` with the number of bytes received (the methods of asyncio's BufferedProtocol). Large responses are
therefore copied only once, from the kernel, before they are decoded.

A rule that is easily broken:

- The bytes of a partition are copied once out of the frame buffer, which the next response reuses: a slow partition
  does not keep the bytes of others alive, and no new pages are allocated. Test:
  `tests/protocol/test_frames.py::test_buffer_is_reused_while_frames_fill_half_of_it`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from sarameya.errors import ProtocolError, ResponseTooLargeError

_SIZE = struct.Struct(">i")

_TLS_ALERT = b"\x15\x03"
"""First bytes of a TLS alert record. No real frame has such a size."""
_FIRST_BYTES = 16 * 1024
"""Initial size of the buffer; most responses are smaller."""
_STEP_BYTES = 256 * 1024
"""Minimal growth of the buffer. It grows as bytes arrive: the size that a frame announces takes no memory."""
_KEPT_BYTES = 8 * 2**20
"""Size above which a buffer is released once frames fill less than half of it.

New memory for each frame costs more in page faults than all other work on the bytes before decoding.
"""


class FrameBuffer:
    """Received bytes of a stream that are not read yet."""

    def __init__(self, smallest: int, largest: int) -> None:
        """Create an empty buffer. `smallest` and `largest` bound the size that a frame may announce, in bytes."""
        self._smallest = smallest
        self._largest = largest
        self._buffer = bytearray(_FIRST_BYTES)
        self._filled = 0
        self._end: int | None = None
        """End of the incomplete frame in the buffer, once its size is known."""

    def get_buffer(self) -> memoryview:
        """Return the space for the next bytes: at least one byte, and nothing beyond the end of an incomplete frame.

        Release it before `buffer_updated` is called.
        """
        if self._filled == len(self._buffer):
            self._grow()
        return memoryview(self._buffer)[self._filled : self._end]

    @property
    def awaited(self) -> int:
        """Number of bytes that are certain to come, since their frame has started; at least one."""
        return self._end - self._filled if self._end is not None else max(_SIZE.size - self._filled, 1)

    def buffer_updated(self, count: int) -> Iterator[memoryview]:
        """Yield the frames that `count` more bytes complete, without their sizes. Read each before the next.

        Raises:
            ProtocolError: A size is too small to be a frame.
            ResponseTooLargeError: A size is above `largest`.
        """
        self._filled += count
        start = 0
        while (end := self._end_of_frame(start)) is not None and end <= self._filled:
            with memoryview(self._buffer)[start + _SIZE.size : end] as frame:
                yield frame
            start = end
        self._end = None if end is None else end - start
        self._drop(start)

    def _end_of_frame(self, start: int) -> int | None:
        """Return the end of the frame at `start`, or None if its size has not arrived."""
        if self._filled - start < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(self._buffer, start)
        if not self._smallest <= size <= self._largest:
            if self._buffer[start : start + 2] == _TLS_ALERT:
                raise ProtocolError("the peer speaks TLS: set security_protocol to SSL or SASL_SSL")
            raise (ProtocolError if size < self._smallest else ResponseTooLargeError)(
                f"the peer announced a response of {size} bytes (allowed are {self._smallest}..{self._largest}); "
                "is there a Kafka broker at this address?"
            )
        return start + _SIZE.size + int(size)

    def _drop(self, read: int) -> None:
        """Remove the first `read` bytes and move the rest to the front."""
        if not read:
            return
        rest = self._buffer[read : self._filled]
        if len(self._buffer) > max(_KEPT_BYTES, 2 * read):
            self._buffer = bytearray(max(_FIRST_BYTES, len(rest)))
        self._buffer[: len(rest)] = rest
        self._filled = len(rest)

    def _grow(self) -> None:
        assert self._end is not None
        grown = bytearray(min(self._end, self._filled + max(self._filled, _STEP_BYTES)))
        grown[: self._filled] = self._buffer
        self._buffer = grown
