"""Print the peak memory, in megabytes, for a batch that tries to fill memory. test_decoder_memory.py runs it."""

import struct
import sys
import zlib
from pathlib import Path

import cramjam
import lz4.frame
from backports import zstd

from sarameya.errors import DecompressionLimitError
from sarameya.model import TopicPartition
from sarameya.protocol.records.batch_codec import crc32c, decode, split
from sarameya.protocol.records.batch_headers import V2_HEADER
from sarameya.protocol.records.compression import Codec

PARTITION = TopicPartition("orders", 3)
CHUNK, CHUNKS = bytes(2**20), 256


def bomb(codec: Codec) -> bytes:
    """Return a quarter of a gigabyte of zeros, compressed in chunks and never in memory as a whole."""
    match codec:
        case Codec.GZIP:
            packer = zlib.compressobj(wbits=31)
            return b"".join(packer.compress(CHUNK) for _ in range(CHUNKS)) + packer.flush()
        case Codec.LZ4:
            frame = lz4.frame.LZ4FrameCompressor()
            return frame.begin() + b"".join(frame.compress(CHUNK) for _ in range(CHUNKS)) + frame.flush()
        case Codec.ZSTD:
            stream = zstd.ZstdCompressor()
            return b"".join(stream.compress(CHUNK) for _ in range(CHUNKS)) + stream.flush()
    block = bytes(cramjam.snappy.compress_raw(CHUNK))
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + (struct.pack(">i", len(block)) + block) * CHUNKS


def batch(codec: Codec, body: bytes, count: int = 1) -> bytes:
    checked = V2_HEADER.pack(0, 0, 0, 2, 0, codec, count - 1, 0, 0, -1, -1, -1, count)[21:] + body
    return struct.pack(">qiib", 0, 9 + len(checked), 0, 2) + struct.pack(">I", crc32c(checked)) + checked


def peak_resident_megabytes() -> int:
    """Return the peak resident memory of this process in megabytes, since the last reset by `clear_refs`."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) >> 10


def main() -> None:
    codec, limit = Codec[sys.argv[1]], int(sys.argv[2])
    (raw,) = split(batch(codec, bomb(codec)), PARTITION, 0)
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    before = peak_resident_megabytes()
    try:
        decode(raw, PARTITION, limit=limit)
    except DecompressionLimitError:
        print(peak_resident_megabytes() - before, "MB more, for a batch of", len(raw.data), "bytes")
    else:
        sys.exit("the batch was decoded without an error")


main()
