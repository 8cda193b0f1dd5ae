"""Compression codecs of Kafka's record batches, with a bound on the decompressed size.

The codecs are libraries (zlib, cramjam, lz4, zstd). This module adds the bound, so that a few kilobytes from a broker
cannot become gigabytes here, and Kafka's two framings of snappy. Memory grows with the bytes that were decompressed,
never with the size that a header claims.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable
from enum import IntEnum

import cramjam
import lz4.frame

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


class Codec(IntEnum):
    """Compression type, the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TooLargeError(Exception):
    """The data decompresses beyond the bound."""


class BrokenDataError(Exception):
    """The data is damaged: not the complete output of its codec."""


# snappy-java frames its blocks: this magic, two int32 versions, then (int32 length, block) pairs.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_SIZE = 32 * 1024

_LZ4_STEP = 256 * 1024
# Kafka's producers write one frame, but its Java reader reads any number, and so does this module. The number has a
# bound, because each frame costs a copy of the bytes after it.
_MAX_FRAMES = 64


def decompress(codec: Codec, data: bytes, limit: int) -> bytes:
    """Decompress `data`.

    Args:
        codec: The codec that the batch names.
        data: Compressed bytes.
        limit: Maximal size of the result in bytes.

    Raises:
        TooLargeError: The result is larger than `limit`.
        BrokenDataError: The data is cut off, altered, or followed by other bytes.
    """
    if codec is Codec.NONE:
        if len(data) > limit:
            raise TooLargeError
        return data
    try:
        return _DECOMPRESS[codec](data, limit)
    except (zlib.error, RuntimeError, ValueError, struct.error, zstd.ZstdError, cramjam.DecompressionError) as error:
        raise BrokenDataError(f"{codec.name.lower()}: {error}") from error


def compress(codec: Codec, data: bytes) -> bytes:
    """Compress `data`, framed as Kafka's own producers frame it."""
    return _COMPRESS[codec](data)


def _frames(first: Callable[[bytes, int], tuple[bytes, bytes]], data: bytes, limit: int) -> bytes:
    """Decompress all frames of `data`. `first` returns the content of the first frame, and the bytes after it."""
    pieces: list[bytes] = []
    for _ in range(_MAX_FRAMES):
        piece, data = first(data, limit)
        limit -= len(piece)
        pieces.append(piece)
        if not data:
            return b"".join(pieces)
    raise ValueError(f"more than {_MAX_FRAMES} frames")


def _checked(plain: bytes, ended: bool, limit: int) -> bytes:
    """Return the content of a frame. Raise an error if it is too large or incomplete."""
    if len(plain) > limit:
        raise TooLargeError
    if not ended:
        raise ValueError("cut off")
    return plain


def _gzip_member(data: bytes, limit: int) -> tuple[bytes, bytes]:
    member = zlib.decompressobj(wbits=31)
    plain = member.decompress(data, limit + 1)
    return _checked(plain, member.eof, limit), member.unused_data


def _zstd_frame(data: bytes, limit: int) -> tuple[bytes, bytes]:
    frame = zstd.ZstdDecompressor()
    plain = frame.decompress(data, limit + 1)
    return _checked(plain, frame.eof, limit), frame.unused_data


def _lz4_frame(data: bytes, limit: int) -> tuple[bytes, bytes]:
    frame = lz4.frame.LZ4FrameDecompressor()
    pieces: list[bytes] = []
    size = 0
    # In steps, because each call reserves all the memory that it may fill.
    while size <= limit and not frame.eof:
        piece = frame.decompress(data, max_length=min(_LZ4_STEP, limit + 1 - size))
        data = b""
        size += len(piece)
        pieces.append(piece)
        if not piece:
            break
    return _checked(b"".join(pieces), frame.eof, limit), frame.unused_data or b""


def _unsnappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _unsnappy_block(data, limit)
    if len(data) < len(_XERIAL_HEADER):
        raise ValueError("cut off")
    pieces: list[bytes] = []
    at = len(_XERIAL_HEADER)
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        at += 4
        if not 0 <= length <= len(data) - at:
            raise ValueError("a block is longer than the rest of the data")
        piece = _unsnappy_block(data[at : at + length], limit)
        limit -= len(piece)
        pieces.append(piece)
        at += length
    return b"".join(pieces)


def _unsnappy_block(block: bytes, limit: int) -> bytes:
    # The block starts with its length, and the library enforces that length.
    if cramjam.snappy.decompress_raw_len(block) > limit:
        raise TooLargeError
    return bytes(cramjam.snappy.decompress_raw(block))


def _gzip(data: bytes) -> bytes:
    member = zlib.compressobj(wbits=31)
    return member.compress(data) + member.flush()


def _snappy(data: bytes) -> bytes:
    pieces = [_XERIAL_HEADER]
    for at in range(0, len(data), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK_SIZE]))
        pieces += (struct.pack(">i", len(block)), block)
    return b"".join(pieces)


_DECOMPRESS: dict[Codec, Callable[[bytes, int], bytes]] = {
    Codec.GZIP: lambda data, limit: _frames(_gzip_member, data, limit),
    Codec.SNAPPY: _unsnappy,
    Codec.LZ4: lambda data, limit: _frames(_lz4_frame, data, limit),
    Codec.ZSTD: lambda data, limit: _frames(_zstd_frame, data, limit),
}

_COMPRESS: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.NONE: bytes,
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    # Kafka's Java reader supports only independent blocks.
    Codec.LZ4: lambda data: bytes(lz4.frame.compress(data, block_linked=False)),
    Codec.ZSTD: zstd.compress,
}
