"""A stream's frames, received into one buffer and read where they stand. Pure.

A frame is an int32 of size and as many bytes. Whoever has the stream receives into `get_buffer()` and tells with
`buffer_updated` how many bytes came (the pair is called as asyncio's BufferedProtocol calls it): what comes in large
answers is then copied once, from the kernel, before it is decoded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from sarameya.errors import ProtocolError, ResponseTooLargeError

_SIZE = struct.Struct(">i")

_TLS_ALERT = b"\x15\x03"
"""How a TLS record begins that says what is wrong: the size of no frame that is ever sent."""
_FIRST_BYTES = 16 * 1024
"""The buffer to begin with: more than most answers have."""
_STEP_BYTES = 256 * 1024
"""The buffer grows by this much, or to its double, whichever is more: what is merely announced takes no memory."""
_KEPT_BYTES = 8 * 2**20
"""A buffer that is larger is let go once frames fill less than half of it. (Memory that is asked for anew for each
frame costs more in page faults than all else that is done with the bytes before they are decoded.)"""


class FrameBuffer:
    """The bytes of a stream that have come and are not read yet."""

    def __init__(self, smallest: int, largest: int) -> None:
        """`smallest` and `largest` bound what a frame may say that its size is."""
        self._smallest = smallest
        self._largest = largest
        self._buffer = bytearray(_FIRST_BYTES)
        self._filled = 0
        self._end: int | None = None
        """Where the frame that is coming in ends, once its size is known."""

    def get_buffer(self) -> memoryview:
        """Where the next bytes go; at least one, and none that is not needed where they are many.

        To be released before `buffer_updated` is called.
        """
        if self._filled == len(self._buffer):
            self._grow()
        return memoryview(self._buffer)[self._filled : self._end]

    @property
    def awaited(self) -> int:
        """How many bytes are sure to come, since the frame that they belong to has begun."""
        return self._end - self._filled if self._end is not None else max(_SIZE.size - self._filled, 1)

    def buffer_updated(self, count: int) -> Iterator[memoryview]:
        """So many bytes came: the frames that they complete, without their sizes, each to be read before the next.

        Raises ProtocolError, or ResponseTooLargeError, for a size that is out of bounds.
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
        """Where the frame that starts there ends, if its size has come."""
        if self._filled - start < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(self._buffer, start)
        if not self._smallest <= size <= self._largest:
            if self._buffer[start : start + 2] == _TLS_ALERT:
                raise ProtocolError("the peer speaks TLS: set security_protocol to SSL or SASL_SSL")
            raise (ProtocolError if size < self._smallest else ResponseTooLargeError)(
                f"the peer announced an answer of {size} bytes (allowed are {self._smallest}..{self._largest}); "
                "is there a Kafka broker at this address?"
            )
        return start + _SIZE.size + int(size)

    def _drop(self, read: int) -> None:
        """So many bytes are read; what is behind them moves to the front."""
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
