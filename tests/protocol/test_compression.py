"""Limits and errors of decompression: bombs and broken data. The codecs themselves are other libraries'."""

import gzip
import struct
import subprocess
import sys

import cramjam
import lz4.frame
import pytest
from aiokafka import codec as aiokafka
from hypothesis import given
from hypothesis import strategies as st

from sarameya.protocol.records.compression import BrokenDataError, Codec, TooLargeError, compress, decompress

SOME = [codec for codec in Codec if codec is not Codec.NONE]
PLAIN = b"".join(b"%d:" % n + b"x" * (n % 50) for n in range(5000))
LIMIT = len(PLAIN)

every_codec = pytest.mark.parametrize("codec", Codec)
each_compressing_codec = pytest.mark.parametrize("codec", SOME)


@every_codec
@given(data=st.binary(max_size=2000))
def test_compressed_data_decompresses_to_the_original(codec, data):
    assert decompress(codec, compress(codec, data), len(data)) == data


@each_compressing_codec
def test_compressed_data_is_read_by_another_library(codec):
    decode = getattr(aiokafka, f"{codec.name.lower()}_decode")
    assert bytes(decode(compress(codec, PLAIN))) == PLAIN


@each_compressing_codec
def test_data_compressed_by_another_library_is_read(codec):
    encode = getattr(aiokafka, f"{codec.name.lower()}_encode")
    assert decompress(codec, bytes(encode(PLAIN)), LIMIT) == PLAIN


@every_codec
def test_decompression_limit_is_exact(codec):
    data = compress(codec, PLAIN)
    assert decompress(codec, data, LIMIT) == PLAIN
    with pytest.raises(TooLargeError):
        decompress(codec, data, LIMIT - 1)


@each_compressing_codec
@pytest.mark.parametrize("kept", [0.0, 0.001, 0.5, 0.999])
def test_truncated_data_is_broken(codec, kept):
    data = compress(codec, PLAIN)
    with pytest.raises(BrokenDataError, match=codec.name.lower()):
        decompress(codec, data[: int(len(data) * kept)], LIMIT)


@each_compressing_codec
def test_data_without_its_last_byte_is_broken(codec):
    with pytest.raises(BrokenDataError):
        decompress(codec, compress(codec, PLAIN)[:-1], LIMIT)


@each_compressing_codec
def test_data_with_trailing_bytes_is_broken(codec):
    with pytest.raises(BrokenDataError):
        decompress(codec, compress(codec, PLAIN) + b"\0\0\0\1x", LIMIT + 1000)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_consecutive_frames_are_read_and_counted_together(codec):
    data = compress(codec, b"ab") + compress(codec, b"") + compress(codec, b"c")
    assert decompress(codec, data, 3) == b"abc"
    with pytest.raises(TooLargeError):
        decompress(codec, data, 2)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_too_many_frames_are_broken(codec):
    with pytest.raises(BrokenDataError, match="frames"):
        decompress(codec, compress(codec, b"") * 10_000, LIMIT)


@each_compressing_codec
@given(noise=st.binary(max_size=200), at=st.integers(0, 60))
def test_random_bytes_are_broken_too_large_or_decompress(codec, noise, at):
    good = compress(codec, PLAIN[:300])
    for data in (noise, good[:at] + noise, good[:at] + noise + good[at + len(noise) :]):
        try:
            assert len(decompress(codec, data, 1000)) <= 1000
        except (BrokenDataError, TooLargeError):
            continue


# -- snappy's two framings ---------------------------------------------------------------------------------


def xerial(*blocks: bytes) -> bytes:
    header = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    return header + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def test_raw_snappy_as_librdkafka_writes_it_is_read():
    assert decompress(Codec.SNAPPY, snappy(PLAIN), LIMIT) == PLAIN


def test_javas_snappy_blocks_are_read_and_counted_together():
    data = xerial(snappy(b"ab"), snappy(b""), snappy(b"c"))
    assert decompress(Codec.SNAPPY, data, 3) == b"abc"
    with pytest.raises(TooLargeError):
        decompress(Codec.SNAPPY, data, 2)


@pytest.mark.parametrize(
    "data",
    [
        xerial()[:-1],
        xerial()[:8],
        xerial(snappy(b"abc"))[:-1],
        xerial() + struct.pack(">i", -1),
        xerial() + struct.pack(">i", 2**31 - 1) + b"x",
        xerial() + b"\0\0",
        xerial(b""),
    ],
    ids=[
        "header cut off",
        "magic alone",
        "block cut off",
        "negative",
        "length too large",
        "length cut off",
        "empty block",
    ],
)
def test_snappy_with_broken_framing_is_broken(data):
    with pytest.raises(BrokenDataError):
        decompress(Codec.SNAPPY, data, LIMIT)


# -- bombs -------------------------------------------------------------------------------------------------

_MEASURE = """
import resource, sys
from sarameya.protocol.records.compression import Codec, TooLargeError, decompress

codec, data = Codec(int(sys.argv[1])), sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(codec, data, 2**20)
except TooLargeError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""

MEGABYTE = 2**20
BOMBS = {
    "gzip": (Codec.GZIP, lambda: gzip.compress(bytes(256 * MEGABYTE), 9)),
    "gzip members": (Codec.GZIP, lambda: gzip.compress(bytes(MEGABYTE // 2)) * 60),
    "snappy": (Codec.SNAPPY, lambda: snappy(bytes(256 * MEGABYTE))),
    "snappy blocks": (Codec.SNAPPY, lambda: xerial(*[snappy(bytes(MEGABYTE // 2))] * 500)),
    "snappy with a false length": (Codec.SNAPPY, lambda: b"\xff\xff\xff\xff\x0f" + b"\0"),
    "lz4": (Codec.LZ4, lambda: lz4.frame.compress(bytes(256 * MEGABYTE), block_size=lz4.frame.BLOCKSIZE_MAX4MB)),
    "lz4 frames": (Codec.LZ4, lambda: lz4.frame.compress(bytes(MEGABYTE // 2)) * 60),
    "zstd": (Codec.ZSTD, lambda: compress(Codec.ZSTD, bytes(256 * MEGABYTE))),
    "zstd frames": (Codec.ZSTD, lambda: compress(Codec.ZSTD, bytes(MEGABYTE // 2)) * 60),
}


@pytest.mark.parametrize(("codec", "make"), BOMBS.values(), ids=BOMBS)
def test_bomb_is_refused_with_little_memory(codec, make):
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(int(codec))], input=make(), capture_output=True, check=True, timeout=60
    )
    assert int(done.stdout) < 16 * 1024, f"{int(done.stdout)} KiB for a limit of 1024"
