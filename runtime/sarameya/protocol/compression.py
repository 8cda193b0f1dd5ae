"""Compression codecs of Kafka's record batches, decompressed within a bound.

The codecs themselves are libraries (zlib, cramjam, lz4, zstandard); ours is only the bound, so that a few
kilobytes from a broker cannot become gigabytes here, and Kafka's two framings of snappy.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum

import cramjam
import lz4.frame
import zstandard


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
    """The data is not what its codec wrote."""


# snappy-java frames its blocks: this header, then (int32 length, block) pairs.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE = 16


def decompress(codec: Codec, data: bytes, limit: int) -> bytes:
    """`data` decompressed, at most `limit` bytes.

    Raises TooLargeError beyond it, BrokenDataError where the codec's library objects.
    """
    if codec is Codec.NONE:
        return data
    try:
        plain = _DECOMPRESS[codec](data, limit)
    except (TooLargeError, BrokenDataError):
        raise
    except (
        zlib.error,
        RuntimeError,
        ValueError,
        struct.error,
        zstandard.ZstdError,
        cramjam.DecompressionError,
    ) as error:
        raise BrokenDataError(f"{codec.name.lower()}: {error}") from error
    if len(plain) > limit:
        raise TooLargeError
    return plain


def compress(codec: Codec, data: bytes) -> bytes:
    """`data` compressed the way Kafka's own producers frame it."""
    return _COMPRESS[codec](data)


def _gunzip(data: bytes, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while data:  # a gzip stream may have several members
        member = zlib.decompressobj(wbits=31)
        piece = member.decompress(data, limit + 1 - size)
        size += len(piece)
        pieces.append(piece)
        if size > limit:
            raise TooLargeError
        if not member.eof:
            raise BrokenDataError("gzip: truncated")
        data = member.unused_data
    return b"".join(pieces)


def _unsnappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _unsnappy_block(data, limit)
    pieces: list[bytes] = []
    size = 0
    at = _XERIAL_HEADER_SIZE
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        block = data[at + 4 : at + 4 + length]
        if length < 0 or len(block) < length:
            raise BrokenDataError("snappy: a block runs out of its frame")
        piece = _unsnappy_block(block, limit - size)
        size += len(piece)
        pieces.append(piece)
        at += 4 + length
    return b"".join(pieces)


def _unsnappy_block(block: bytes, limit: int) -> bytes:
    # The length stands in front of the block and the library holds the block to it.
    if cramjam.snappy.decompress_raw_len(block) > limit:
        raise TooLargeError
    return bytes(cramjam.snappy.decompress_raw(block))


def _unlz4(data: bytes, limit: int) -> bytes:
    frame = lz4.frame.LZ4FrameDecompressor()
    plain: bytes = frame.decompress(data, max_length=limit + 1)
    if len(plain) > limit:
        raise TooLargeError
    if not frame.eof:
        raise BrokenDataError("lz4: truncated")
    return plain


def _unzstd(data: bytes, limit: int) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
        return reader.read(limit + 1)


def _gzip(data: bytes) -> bytes:
    member = zlib.compressobj(wbits=31)
    return member.compress(data) + member.flush()


_DECOMPRESS: dict[Codec, Callable[[bytes, int], bytes]] = {
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnappy,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}

_COMPRESS: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.NONE: bytes,
    Codec.GZIP: _gzip,
    Codec.SNAPPY: lambda data: bytes(cramjam.snappy.compress_raw(data)),
    # Kafka's Java reader knows independent blocks only.
    Codec.LZ4: lambda data: bytes(lz4.frame.compress(data, block_linked=False)),
    Codec.ZSTD: lambda data: zstandard.ZstdCompressor().compress(data),
}
