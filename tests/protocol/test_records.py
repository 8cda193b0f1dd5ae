"""Our decoder against Java's encoder, our `build` against other libraries' decoders, and both against bad bytes.

`golden/batches.txt` was written by Kafka's own classes (`golden/Golden.java`, kafka-clients 4.1.0).
"""

import os
import struct
import subprocess
import sys
import time
import tracemalloc
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from sarameya.errors import CorruptRecordError, DecompressionLimitError, RecordError, UnsupportedFormatError
from sarameya.model import NO_LEADER_EPOCH, NO_TIMESTAMP, Message, TimestampType, TopicPartition
from sarameya.protocol.records.batch_codec import (
    RawBatch,
    build,
    crc32c,
    crc_matches,
    decode,
    decode_columns,
    decode_slices,
    is_truncated,
    split,
)
from sarameya.protocol.records.batch_headers import V2_HEADER
from sarameya.protocol.records.compression import Codec, compress
from sarameya.protocol.records.record_costs import allowance

HERE = Path(__file__).parent
PARTITION = TopicPartition("orders", 3)
BASE, TIME, APPENDED = 1000, 1_700_000_000_000, 1_800_000_000_000

GOLDEN = {
    name: bytes.fromhex(data)
    for name, data in (line.split() for line in (HERE / "golden" / "batches.txt").read_text().splitlines())
}

HEADERS = (("trace", b"\x80\x01"), ("trace", None), ("", b""), ("größe", b"x"))
TYPICAL = [
    (TIME, b"key", b"x" * 100, ()),
    (TIME - 5, None, b"\xff\x00\xfe", HEADERS),
    (TIME + 7, b"", None, ()),
]


def one(data: bytes) -> RawBatch:
    (raw,) = split(data, PARTITION, BASE)
    assert len(raw.data) == len(data)
    return raw


def contents(messages):
    return [(m.timestamp, m.key, m.value, m.headers) for m in messages]


def sealed(header: tuple, body: bytes) -> bytes:
    """Return a v2 batch of these header fields and this body, with the right length and CRC."""
    fields = list(header)
    fields[1] = V2_HEADER.size - 12 + len(body)
    unsealed = V2_HEADER.pack(*fields) + body
    fields[4] = crc32c(unsealed[21:])
    return V2_HEADER.pack(*fields) + body


def tampered(data: bytes, *, body: bytes | None = None, **fields: int) -> bytes:
    """Return a v2 batch with other header fields or another body, and a valid CRC."""
    names = ["base_offset", "length", "epoch", "magic", "crc", "attributes", "last_delta", "base_timestamp"]
    names += ["max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count"]
    header = dict(zip(names, V2_HEADER.unpack_from(data), strict=True)) | fields
    return sealed(tuple(header.values()), data[V2_HEADER.size :] if body is None else body)


# -- Java's batches ----------------------------------------------------------------------------------------


def expected(magic: int, *, appended: bool) -> list[Message]:
    """Return the three records that `Golden.three` writes."""
    kind = TimestampType.NO_TIMESTAMP_TYPE
    times = [NO_TIMESTAMP] * 3
    if magic:
        kind = TimestampType.LOG_APPEND_TIME if appended else TimestampType.CREATE_TIME
        times = [APPENDED] * 3 if appended else [TIME, TIME - 5, TIME + 7]
    keys_values = [(b"key", b"x" * 100), (None, b"\xff\x00\xfe"), (b"", None)]
    epoch = 5 if magic == 2 else NO_LEADER_EPOCH
    return [
        Message(*PARTITION, BASE + i, times[i], kind, key, value, (), epoch)
        for i, (key, value) in enumerate(keys_values)
    ]


@pytest.mark.parametrize("name", [n for n in GOLDEN if n.split("-")[1] in {c.name.lower() for c in Codec}])
def test_java_records_of_each_format_and_codec_decode(name):
    magic, appended = int(name[1]), name.endswith("-appended")
    batches = list(split(GOLDEN[name], PARTITION, BASE))
    assert {b.magic for b in batches} == {magic}
    assert [m for b in batches for m in decode(b, PARTITION)] == expected(magic, appended=appended)
    assert batches[-1].next_offset == BASE + 3


def test_javas_lz4_header_checksum_differs_between_v0_and_v1():
    """Proves that the decoded `v0-lz4` above repairs the wrong checksum of Kafka 0.8."""
    v0, v1 = (data[data.index(b"\x04\x22\x4d\x18") :] for data in (GOLDEN["v0-lz4"], GOLDEN["v1-lz4"]))
    assert v0[:6] == v1[:6]
    assert v0[6] != v1[6]


def test_unusual_headers_are_kept_in_order():
    (message,) = decode(one(GOLDEN["v2-headers"]), PARTITION)
    assert message.headers == HEADERS


def test_transactional_batch_names_its_producer():
    raw = one(GOLDEN["v2-transactional"])
    assert raw.is_transactional
    assert not raw.is_control
    assert (raw.producer_id, raw.producer_epoch, raw.base_sequence, raw.leader_epoch) == (77, 3, 12, 5)


@pytest.mark.parametrize(("name", "kind"), [("v2-abort", 0), ("v2-commit", 1)])
def test_control_batch_decodes_to_its_marker(name, kind):
    raw = one(GOLDEN[name])
    assert raw.is_control
    assert raw.is_transactional
    assert raw.next_offset == BASE + 1
    (marker,) = decode(raw, PARTITION)
    assert marker.key == struct.pack(">hh", 0, kind)


def test_empty_batch_moves_the_position():
    raw = one(GOLDEN["v2-empty"])
    assert raw.record_count == 0
    assert decode(raw, PARTITION) == []
    assert raw.next_offset == BASE + 10


def test_compacted_batch_keeps_its_gaps_and_its_end():
    raw = one(GOLDEN["v2-compacted"])
    assert [m.offset for m in decode(raw, PARTITION)] == [BASE, BASE + 4, BASE + 7]
    assert raw.next_offset == BASE + 10


# -- other encoders, other decoders ------------------------------------------------------------------------


def test_kafka_pythons_negative_timestamps_decode():
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for offset, timestamp in enumerate((-5, -1, 3)):
        builder.append(offset, timestamp, b"k", None, [("h", b"\xff")])
    assert contents(decode(one(bytes(builder.build())), PARTITION)) == [
        (timestamp, b"k", None, (("h", b"\xff"),)) for timestamp in (-5, -1, 3)
    ]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_kafka_pythons_legacy_messages_decode(magic, codec):
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for offset in range(3):
        builder.append(offset, timestamp=TIME if magic else None, key=b"%d" % offset, value=None)
    data = bytearray(builder.build())
    if codec is not Codec.NONE:
        struct.pack_into(">q", data, 0, 2)  # the last inner offset, as the broker sets it
    messages = [m for b in split(bytes(data), PARTITION, 0) for m in decode(b, PARTITION)]
    assert [(m.offset, m.key, m.value) for m in messages] == [(n, b"%d" % n, None) for n in range(3)]
    assert {m.timestamp for m in messages} == {TIME if magic else NO_TIMESTAMP}


def test_v1_wrapper_shifts_its_relative_inner_offsets():
    builder = LegacyRecordBatchBuilder(1, Codec.GZIP, 1 << 20)
    for offset in range(3):
        builder.append(offset, timestamp=TIME, key=None, value=b"v")
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, 5000)  # as the broker does, which rewrites the wrapper only
    assert [m.offset for m in decode(one(bytes(data)), PARTITION)] == [4998, 4999, 5000]


def read_by(records_class, data):
    records = records_class(data)
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        for r in batch:
            yield (r.timestamp, r.key, r.value, tuple(r.headers))


@pytest.mark.parametrize("codec", Codec)
def test_aiokafka_reads_the_built_batch(codec):
    assert list(read_by(AiokafkaRecords, build(TYPICAL, codec=codec))) == TYPICAL


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_kafka_python_reads_the_built_batch(codec):
    assert list(read_by(KafkaPythonRecords, build(TYPICAL, codec=codec))) == TYPICAL


@pytest.mark.parametrize("name", ["v2-none", "v2-headers", "v2-transactional"])
def test_built_batch_equals_javas_bytes(name):
    raw = one(GOLDEN[name])
    built = build(
        contents(decode(raw, PARTITION)),
        base_offset=raw.base_offset,
        producer_id=raw.producer_id,
        producer_epoch=raw.producer_epoch,
        base_sequence=raw.base_sequence,
        leader_epoch=raw.leader_epoch,
        transactional=raw.is_transactional,
    )
    assert built.hex() == GOLDEN[name].hex()


_bytes = st.none() | st.binary(max_size=40)
_records = st.lists(
    st.tuples(
        st.integers(-(2**62), 2**62),
        _bytes,
        _bytes,
        st.lists(st.tuples(st.text(max_size=8), _bytes), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=20,
)


@given(records=_records, codec=st.sampled_from(Codec), base_offset=st.integers(0, 2**62))
def test_any_records_survive_build_and_decode(records, codec, base_offset):
    messages = decode(one(build(records, codec=codec, base_offset=base_offset)), PARTITION)
    assert contents(messages) == records
    assert [m.offset for m in messages] == list(range(base_offset, base_offset + len(records)))


# -- columns -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GOLDEN)
def test_columns_of_java_batches_equal_their_messages(name):
    for raw in split(GOLDEN[name], PARTITION, BASE):
        assert list(decode_columns(raw, PARTITION)) == decode(raw, PARTITION)


@given(records=_records, codec=st.sampled_from(Codec), base_offset=st.integers(0, 2**62), epoch=st.integers(-1, 9))
def test_columns_of_any_batch_equal_its_messages(records, codec, base_offset, epoch):
    raw = one(build(records, codec=codec, base_offset=base_offset, leader_epoch=epoch))
    columns, messages = decode_columns(raw, PARTITION), decode(raw, PARTITION)
    assert list(columns) == messages
    assert [type(m) for m in columns] == [Message] * len(messages)
    assert [hash(m) for m in columns] == [hash(m) for m in messages]  # headers are tuples here too


def test_columns_are_checked_like_messages():
    broken = one(flipped(GOLDEN["v2-none"], 17))
    assert list(decode_columns(broken, PARTITION, check_crc=False)) == expected(2, appended=False)
    problem_of(lambda: decode_columns(one(GOLDEN["v2-gzip"]), PARTITION, limit=10), DecompressionLimitError)


def test_records_with_huge_headers_or_values_are_kept():
    records = [
        (TIME, None, None, tuple((f"h{n % 7}", b"%d" % n) for n in range(10_000))),
        (TIME, b"k" * 2**20, bytes(16 * 2**20), ()),
    ]
    assert contents(decode(one(build(records, codec=Codec.ZSTD)), PARTITION)) == records


# -- batches in a log --------------------------------------------------------------------------------------


def test_split_yields_batches_of_all_formats_in_order():
    names = ["v0-none", "v1-gzip", "v2-zstd", "v2-empty"]
    assert [b.magic for b in split(b"".join(GOLDEN[n] for n in names), PARTITION, BASE)] == [0, 0, 0, 1, 2, 2]


@pytest.mark.parametrize("missing", [1, 40, 61, 100, 170])
def test_truncated_last_batch_is_left_out(missing):
    whole, last = GOLDEN["v2-empty"], GOLDEN["v2-none"][:-missing]
    assert [b.data for b in split(whole + last, PARTITION, BASE)] == [whole]
    assert list(split(last, PARTITION, BASE)) == []
    assert is_truncated(last)


def test_empty_log_and_whole_batches_are_not_truncated():
    assert not is_truncated(b"")
    assert not is_truncated(GOLDEN["v2-none"])
    assert not is_truncated(GOLDEN["v2-none"] + b"\0")


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 48])
def test_batch_with_an_impossible_length_is_corrupt(length):
    data = GOLDEN["v2-empty"] + with_length(GOLDEN["v2-none"], length)
    assert problem_of(lambda: list(split(data, PARTITION, BASE)), CorruptRecordError).offset == BASE + 10


def test_batch_with_an_unknown_magic_names_its_offset():
    data = bytearray(GOLDEN["v2-empty"] + GOLDEN["v2-none"])
    data[len(GOLDEN["v2-empty"]) + 16] = 3
    assert problem_of(lambda: list(split(bytes(data), PARTITION, BASE)), UnsupportedFormatError).offset == BASE + 10


@pytest.mark.parametrize("fields", [{"last_delta": -1}, {"base_offset": -1}])
def test_batch_with_impossible_offsets_is_corrupt(fields):
    data = tampered(GOLDEN["v2-none"], **fields)
    problem_of(lambda: list(split(data, PARTITION, BASE)), CorruptRecordError)


def with_length(data: bytes, length: int) -> bytes:
    return data[:8] + struct.pack(">i", length) + data[12:]


def problem_of(act, error_class) -> RecordError:
    """Return the error that `act` raises. Check that it names the partition."""
    with pytest.raises(error_class) as caught:
        act()
    error = caught.value
    assert type(error) is error_class
    assert (error.topic, error.partition) == PARTITION
    assert str(PARTITION) in str(error)
    return error


# -- bad batches -------------------------------------------------------------------------------------------


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def varint(value: int) -> bytes:
    value = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


NULL, NONE = varint(-1), varint(0)


def record(*, timestamp=0, offset=0, key=NULL, value=NULL, headers=NONE) -> bytes:
    body = b"\0" + varint(timestamp) + varint(offset) + key + value + headers
    return varint(len(body)) + body


def batch_of(*records: bytes, count: int | None = None, last_delta: int | None = None) -> bytes:
    count = len(records) if count is None else count
    last_delta = max(len(records) - 1, 0) if last_delta is None else last_delta
    return sealed((BASE, 0, 5, 2, 0, 0, last_delta, TIME, TIME, -1, -1, -1, count), b"".join(records))


HUGE = [2**63 - 1, 2**63 - 2, 2**63 - 60, 2**62, 2**40, 2**31, 1000]

BAD_V2 = {
    "CRC flipped": flipped(GOLDEN["v2-none"], 17),
    "body flipped": flipped(GOLDEN["v2-none"], 120),
    "more records than the count": tampered(GOLDEN["v2-none"], count=2),
    "fewer records than the count": tampered(GOLDEN["v2-none"], count=4),
    "a count of zero": tampered(GOLDEN["v2-none"], count=0),
    "a negative count": tampered(GOLDEN["v2-none"], count=-1),
    "the largest count": tampered(GOLDEN["v2-none"], count=2**31 - 1),
    "bytes after the last record": tampered(GOLDEN["v2-none"], body=GOLDEN["v2-none"][61:] + b"\0"),
    "last record cut off": tampered(GOLDEN["v2-none"], body=GOLDEN["v2-none"][61:-1]),
    "offsets after the batch's last": tampered(GOLDEN["v2-none"], last_delta=1),
    "repeated offsets": batch_of(record(offset=1), record(offset=1), last_delta=5),
    "decreasing offsets": batch_of(record(offset=2), record(offset=1), last_delta=5),
    "an offset before the batch's first": batch_of(record(offset=-1)),
    "record longer than its length": batch_of(varint(5) + record()[1:]),
    "record shorter than its length": batch_of(varint(7) + record()[1:]),
    "a negative record length": batch_of(varint(-1) + record()[1:]),
    "header key that is not UTF-8": batch_of(record(headers=varint(1) + varint(2) + b"\xff\xfe" + varint(-1))),
    "header without a key": batch_of(record(headers=varint(1) + varint(-1) + varint(-1))),
    "fewer headers than the count": batch_of(record(headers=varint(2) + varint(1) + b"h" + varint(-1))),
    "more headers than the count": batch_of(record(headers=varint(1) + (varint(1) + b"h" + varint(-1)) * 2)),
    "a negative count of headers": batch_of(record(headers=varint(-1))),
    "the largest count of headers": batch_of(record(headers=varint(2**63 - 1))),
    "a varint of eleven bytes": batch_of(record(key=b"\xff" * 10 + b"\x01")),
    "a varint cut off at the end": batch_of(varint(7) + b"\0\0\0\1\1" + b"\xff\xff"),
    "continuation bytes only": batch_of(b"\xff" * 7),
} | {
    f"{what} of {size} bytes": batch_of(record(**{what: prefix + varint(size)}))
    for what, prefix in (("key", b""), ("value", b""), ("headers", varint(1)))
    for size in HUGE
}


@pytest.mark.parametrize("into", [decode, decode_columns])
@pytest.mark.parametrize("data", BAD_V2.values(), ids=BAD_V2)
def test_bad_v2_batch_is_corrupt(data, into):
    raw = one(data)
    assert problem_of(lambda: into(raw, PARTITION), CorruptRecordError).offset == BASE


@pytest.mark.parametrize("into", [decode, decode_columns])
def test_header_key_that_is_not_utf_8_is_shown_in_the_error(into):
    key = b"\xff\xfe" + bytes(500)
    raw = one(batch_of(record(headers=varint(1) + varint(len(key)) + key + varint(-1))))
    error = problem_of(lambda: into(raw, PARTITION), CorruptRecordError)
    assert error.problem.startswith(r"the key of a record's header is not UTF-8: b'\xff\xfe")
    assert len(error.problem) < 300


def test_wrong_crc_is_ignored_without_the_check():
    assert decode(one(flipped(GOLDEN["v2-none"], 17)), PARTITION, check_crc=False) == expected(2, appended=False)
    assert not crc_matches(one(flipped(GOLDEN["v2-none"], 17)))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec_is_unsupported(codec):
    raw = one(tampered(GOLDEN["v2-none"], attributes=codec))
    error = problem_of(lambda: decode(raw, PARTITION), UnsupportedFormatError)
    assert str(codec) in error.problem


def compressed_body(codec: Codec) -> bytes:
    return GOLDEN[f"v2-{codec.name.lower()}"][61:]


SOME = [codec for codec in Codec if codec is not Codec.NONE]


@pytest.mark.parametrize("codec", SOME)
@pytest.mark.parametrize("spoil", [lambda b: b[:-1], lambda b: b[: len(b) // 2], lambda b: b[:3], lambda b: b""])
def test_truncated_compressed_records_are_corrupt(codec, spoil):
    data = tampered(GOLDEN[f"v2-{codec.name.lower()}"], body=spoil(compressed_body(codec)))
    problem_of(lambda: decode(one(data), PARTITION), CorruptRecordError)


@pytest.mark.parametrize("codec", SOME)
def test_compressed_records_with_trailing_bytes_are_corrupt(codec):
    data = tampered(GOLDEN[f"v2-{codec.name.lower()}"], body=compressed_body(codec) + b"\0\0\0\x01x")
    problem_of(lambda: decode(one(data), PARTITION), CorruptRecordError)


@pytest.mark.parametrize("codec", SOME)
def test_decompression_limit_of_a_batch_is_exact(codec):
    raw = one(build(TYPICAL, codec=codec))
    size = len(build(TYPICAL)) - V2_HEADER.size
    assert contents(decode(raw, PARTITION, limit=size)) == TYPICAL
    error = problem_of(lambda: decode(raw, PARTITION, limit=size - 1), DecompressionLimitError)
    assert str(size - 1) in error.problem
    assert error.offset == raw.base_offset


def zstd_batch(records: bytes, count: int) -> RawBatch:
    return one(
        sealed((BASE, 0, 5, 2, 0, Codec.ZSTD, count - 1, TIME, TIME, -1, -1, -1, count), compress(Codec.ZSTD, records))
    )


EMPTY_HEADER = varint(0) + NULL
TOO_MANY = {
    "records": (b"".join(record(offset=n) for n in range(30_000)), 30_000),
    "headers of one record": (record(headers=varint(60_000) + EMPTY_HEADER * 60_000), 1),
    "headers of many records": (
        b"".join(record(offset=n, headers=varint(100) + EMPTY_HEADER * 100) for n in range(1000)),
        1000,
    ),
    "headers of a record with a short length": (
        varint(7) + record(headers=varint(60_000) + EMPTY_HEADER * 60_000)[3:],
        1,
    ),
    "more headers announced than present": (record(headers=varint(2**40) + EMPTY_HEADER * 60_000), 1),
}


@pytest.mark.parametrize("into", [decode, decode_columns])
@pytest.mark.parametrize(("records", "count"), TOO_MANY.values(), ids=TOO_MANY)
def test_batch_of_too_many_records_is_refused_early(records, count, into):
    raw = zstd_batch(records, count)
    limit = len(records)
    assert len(raw.data) < limit / 2
    tracemalloc.start()
    problem_of(lambda: into(raw, PARTITION, limit=limit), DecompressionLimitError)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * limit
    with suppress(CorruptRecordError):
        assert len(into(raw, PARTITION, limit=50 * limit)) == count


def test_legacy_wrapper_of_too_many_messages_is_refused_early():
    inner = b"".join(legacy(1, 0, None, None, offset=n) for n in range(20_000))
    raw = one(wrapper(inner, offset=BASE + 20_000))
    problem_of(lambda: decode(raw, PARTITION, limit=len(inner)), DecompressionLimitError)
    assert len(decode(raw, PARTITION, limit=50 * len(inner))) == 20_000


# -- bad messages of the old formats -----------------------------------------------------------------------


def legacy(magic: int, attributes: int, key: bytes | None, value: bytes | None, *, offset=BASE, trailing=b"") -> bytes:
    def sized(data: bytes | None) -> bytes:
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

    fields = struct.pack(">bb", magic, attributes) + (struct.pack(">q", TIME) if magic else b"")
    return resealed(struct.pack(">qiI", offset, 0, 0) + fields + sized(key) + sized(value) + trailing)


def resealed(data: bytes) -> bytes:
    """Return a v0 or v1 entry with the right length and CRC."""
    return data[:8] + struct.pack(">iI", len(data) - 12, zlib.crc32(data[16:])) + data[16:]


def wrapper(inner: bytes | None, *, magic: int = 1, codec: int = Codec.GZIP, offset: int = BASE) -> bytes:
    return legacy(magic, codec, None, None if inner is None else compress(Codec.GZIP, inner), offset=offset)


PLAIN = legacy(1, 0, b"k", b"v", offset=0)


def with_key_length(data: bytes, length: int) -> bytes:
    return resealed(data[:26] + struct.pack(">i", length) + data[30:])


BAD_LEGACY = {
    "CRC flipped": flipped(GOLDEN["v1-gzip"], 12),
    "value flipped": flipped(GOLDEN["v1-gzip"], 60),
    "a negative key length": with_key_length(PLAIN, -2),
    "the lowest key length": with_key_length(PLAIN, -(2**31)),
    "the largest key length": with_key_length(PLAIN, 2**31 - 1),
    "a key up to the end, no value": with_key_length(PLAIN, 6),
    "a key up to two bytes before the end": with_key_length(PLAIN, 4),
    "bytes after the value": legacy(1, 0, b"k", b"v", trailing=b"\0"),
    "compressed without a value": wrapper(None),
    "compressed without a message": wrapper(b""),
    "compressed with a truncated message": wrapper(PLAIN[:-1]),
    "bytes after the last inner message": wrapper(PLAIN + PLAIN[:-1]),
    "inner message of another format": wrapper(legacy(0, 0, b"k", b"v", offset=0)),
    "inner batch of format v2": wrapper(GOLDEN["v2-none"]),
    "compressed twice": wrapper(wrapper(PLAIN, offset=0)),
    "inner CRC flipped": wrapper(flipped(PLAIN, 12)),
    "inner key length": wrapper(with_key_length(PLAIN, 100)),
    "more inner messages than offsets": wrapper(PLAIN + legacy(1, 0, b"", b"", offset=9), offset=3),
    "v0 inner offset beyond its wrapper": wrapper(legacy(0, 0, b"", b"", offset=BASE + 1), magic=0),
    "decreasing v0 inner offsets": wrapper(
        b"".join(legacy(0, 0, b"", b"", offset=BASE - n) for n in (5, 1, 3, 0)), magic=0
    ),
    "v1 inner offset twice": wrapper(PLAIN + PLAIN, offset=9),
    "data that the codec cannot read": legacy(1, Codec.SNAPPY, None, b"\xff" * 20),
    "v0 LZ4 without a header": legacy(0, Codec.LZ4, None, b"\x04\x22\x4d\x18"),
}


@pytest.mark.parametrize("into", [decode, decode_columns])
@pytest.mark.parametrize("data", BAD_LEGACY.values(), ids=BAD_LEGACY)
def test_bad_legacy_message_is_corrupt(data, into):
    raw = one(data)
    assert problem_of(lambda: into(raw, PARTITION), CorruptRecordError).offset == raw.base_offset


@pytest.mark.parametrize("codec", [4, 5, 6, 7])
def test_legacy_message_with_an_invalid_codec_is_unsupported(codec):
    problem_of(lambda: decode(one(legacy(1, codec, None, b"x")), PARTITION), UnsupportedFormatError)


def test_legacy_wrapper_beyond_the_limit_is_refused():
    raw = one(wrapper(legacy(1, 0, None, bytes(5000), offset=0)))
    problem_of(lambda: decode(raw, PARTITION, limit=5000), DecompressionLimitError)


# -- any bytes ---------------------------------------------------------------------------------------------


@given(st.binary(max_size=300), st.sampled_from(sorted(GOLDEN)))
def test_random_bytes_decode_or_raise_a_record_error(noise, name):
    for data in (noise, GOLDEN[name] + noise):
        with suppress(RecordError):
            for raw in split(data, PARTITION, BASE):
                messages = decode(raw, PARTITION, limit=1 << 20)
                assert list(decode_columns(raw, PARTITION, limit=1 << 20)) == messages


def outcome(into, raw: RawBatch) -> list[Message] | None:
    """Return the batch's messages, decoded without the CRC check, or None if that fails."""
    try:
        return list(into(raw, PARTITION, check_crc=False, limit=1 << 20))
    except RecordError:
        return None


@given(st.sampled_from(sorted(GOLDEN)), st.data())
def test_changed_bytes_without_crc_decode_or_raise_a_record_error(name, data):
    changed = bytearray(GOLDEN[name])
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    with suppress(RecordError):
        for raw in split(bytes(changed), PARTITION, BASE):
            messages = outcome(decode, raw)
            assert messages == outcome(decode_columns, raw)
            assert all(0 <= m.offset <= raw.last_offset for m in messages or ())


def python(*arguments: str | Path, pure_aiokafka: bool) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments in a process of its own, in the repository's directory."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        env=os.environ | ({"AIOKAFKA_NO_EXTENSIONS": "1"} if pure_aiokafka else {}),
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("decoder", ["compiled", "pure"])
def test_decoder_never_reads_beyond_hostile_bytes(decoder):
    done = python(HERE / "hostile_batches.py", pure_aiokafka=decoder == "pure")
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    assert done.stdout.startswith(decoder)
    assert ("compiled record decoder is missing" in done.stderr) == (decoder == "pure")


@pytest.mark.parametrize("decoder", ["compiled", "pure"])
def test_pure_python_crc_is_right_and_warns(decoder):
    """Java's batches decode in a process without google-crc32c's compiled half, where aiokafka's CRC replaces it."""
    program = """if True:
        import sys
        sys.modules["google_crc32c._crc32c"] = None
        from tests.protocol.test_records import GOLDEN, crc_matches, flipped, one
        batches = [one(data) for name, data in GOLDEN.items() if name.startswith("v2")]
        assert len(batches) > 8 and all(map(crc_matches, batches))
        assert not crc_matches(one(flipped(GOLDEN["v2-none"], 17)))
    """
    done = python("-c", program, pure_aiokafka=decoder == "pure")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("google-crc32c's compiled half is missing") == 1


def test_decoding_takes_a_few_microseconds_per_message():
    """A tenth of the limit is usual. The pure-Python half of either library would exceed the limit."""
    raw = one(build([(TIME + n, None, bytes(200), ()) for n in range(5000)]))

    def cpu_seconds() -> float:
        started = time.process_time()
        decode(raw, PARTITION)
        return time.process_time() - started

    assert min(cpu_seconds() for _ in range(5)) / 5000 < 5e-6


def test_raw_batch_is_immutable():
    with pytest.raises(AttributeError):
        one(GOLDEN["v2-none"]).base_offset = 1


@given(sizes=st.lists(st.integers(0, 300), min_size=1, max_size=6), trailing=st.binary(max_size=60))
def test_batches_decode_alike_anywhere_in_a_buffer(sizes, trailing):
    alone = [build([(TIME, None, bytes([size % 256]) * size, HEADERS[: size % 5])]) for size in sizes]
    raws = []
    with suppress(RecordError):
        raws.extend(split(b"".join(alone) + trailing, PARTITION, 0))
    assert [raw.data for raw in raws[: len(alone)]] == alone
    for raw, data in zip(raws, alone, strict=False):
        assert raw.size_bytes == len(data)
        assert decode(raw, PARTITION) == decode(one(data), PARTITION)
        assert list(decode_columns(raw, PARTITION)) == decode(one(data), PARTITION)


def test_batches_share_the_bytes_of_their_log():
    log = GOLDEN["v2-none"] * 3
    assert all(raw.log is log for raw in split(log, PARTITION, 0))


def test_large_batch_is_decoded_a_thousand_records_at_a_time() -> None:
    (raw,) = split(build([(0, None, None, ())] * 2500, codec=Codec.ZSTD), PARTITION, 0)
    slices = decode_slices(raw, PARTITION)
    assert [len(messages) for messages in slices] == [1000, 1000, 500]
    assert [m for messages in decode_slices(raw, PARTITION) for m in messages] == decode(raw, PARTITION)


def test_slices_of_large_records_are_smaller() -> None:
    limit = 2**20
    records = [(0, None, bytes(20_000), ())] * 40
    (raw,) = split(build(records, codec=Codec.ZSTD), PARTITION, 0)
    sizes = [len(messages) for messages in decode_slices(raw, PARTITION, limit=limit)]
    assert sum(sizes) == 40
    assert max(sizes) * 20_000 <= allowance(limit)


def test_record_with_too_many_headers_is_refused_in_slices() -> None:
    headers = (("", None),) * 100_000
    (raw,) = split(build([(0, None, b"x", ()), (0, None, None, headers)], codec=Codec.ZSTD), PARTITION, 0)
    with pytest.raises(DecompressionLimitError):
        list(decode_slices(raw, PARTITION, limit=2**20))


def test_error_within_a_large_batch_fails_its_slices() -> None:
    good = build([(0, None, b"x" * 10, ())] * 2500)
    broken = bytearray(good)
    broken[-20_000:-19_970] = b"\x55" * 30
    (raw,) = split(bytes(broken), PARTITION, 0)
    read = decode_slices(raw, PARTITION, check_crc=False)
    with pytest.raises(CorruptRecordError):
        list(read)
    with pytest.raises(CorruptRecordError):
        decode(raw, PARTITION, check_crc=False)
