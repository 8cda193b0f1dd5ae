"""Batches that are read into columns give the same messages, and the same errors, as batches decoded one by one."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice, permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya.arrow import ArrowColumn
from sarameya.errors import CorruptRecordError, DecompressionLimitError, RecordError
from sarameya.message_batch import MessageBatch, MessageColumns
from sarameya.model import Message, TopicPartition
from sarameya.protocol.records import column_reader
from sarameya.protocol.records.batch_codec import RawBatch, build, crc32c, decode, split
from sarameya.protocol.records.batch_headers import V2_HEADER
from sarameya.protocol.records.column_reader import ColumnReader
from sarameya.protocol.records.compression import Codec

PARTITION = TopicPartition("orders", 3)
TIME = 1_700_000_000_000
GOLDEN = {
    name: bytes.fromhex(data)
    for name, data in (
        line.split() for line in (Path(__file__).parent / "golden" / "batches.txt").read_text().splitlines()
    )
}

_bytes = st.none() | st.binary(max_size=300)
_headers = st.lists(st.tuples(st.text(max_size=20), _bytes), max_size=3).map(tuple)
_records = st.lists(st.tuples(st.integers(0, 2**42), _bytes, _bytes, st.just(()) | _headers), min_size=1, max_size=150)


def log_of(*batches: Sequence[tuple], codec: Codec = Codec.NONE, epoch: int = 0, base: int = 0) -> bytes:
    """Return a log of these record batches, one after the other."""
    log = b""
    for records in batches:
        log += build(records, base_offset=base, codec=codec, leader_epoch=epoch)
        base += len(records)
    return log


def some(count: int, size: int = 10) -> list[tuple]:
    return [(TIME + number, b"k%d" % number, b"v" * size, ()) for number in range(count)]


def sealed(header: Sequence[int], body: bytes) -> bytes:
    """Return a v2 batch of these header fields and this body, with the right length and CRC."""
    fields = list(header)
    fields[1] = V2_HEADER.size - 12 + len(body)
    fields[4] = crc32c((V2_HEADER.pack(*fields) + body)[21:])
    return V2_HEADER.pack(*fields) + body


def raws_of(log: bytes) -> list[RawBatch]:
    return list(split(log, PARTITION, 0))


def read_all(raws: Sequence[RawBatch], reader: ColumnReader | None = None) -> list[MessageColumns]:
    reader = reader or ColumnReader(PARTITION)
    read: list[MessageColumns] = []
    at = 0
    while at < len(raws):
        columns, count = reader.read(islice(raws, at, None))
        read.append(columns)
        at += count
    assert at == len(raws)
    return read


def messages_of(raws: Sequence[RawBatch]) -> list[Message]:
    return [message for raw in raws for message in decode(raw, PARTITION)]


def is_walked(columns: MessageColumns) -> bool:
    """Return True if no Python object was made for a record."""
    return isinstance(columns.values, ArrowColumn)


# -- the same messages -------------------------------------------------------------------------------------


@given(batches=st.lists(_records, min_size=1, max_size=4), codec=st.sampled_from(Codec), base=st.integers(0, 2**62))
def test_columns_of_any_batches_equal_their_messages(batches, codec, base):
    raws = raws_of(log_of(*batches, codec=codec, base=base))
    [columns] = read_all(raws)
    assert is_walked(columns)
    messages = messages_of(raws)
    assert list(columns) == messages
    assert [hash(message) for message in columns] == [hash(message) for message in messages]
    assert [columns[place] for place in (0, -1)] == [messages[0], messages[-1]]
    assert list(columns[1:-1]) == messages[1:-1]
    table = MessageBatch(*PARTITION, columns, 0).to_arrow()
    table.validate(full=True)
    assert table.equals(MessageBatch(*PARTITION, messages, 0).to_arrow())


@pytest.mark.parametrize("name", [name for name in GOLDEN if not name.startswith("v2-empty")])
def test_columns_of_java_batches_equal_their_messages(name):
    raws = raws_of(GOLDEN[name])
    read = read_all(raws)
    assert [message for columns in read for message in columns] == messages_of(raws)
    assert all(is_walked(columns) == name.startswith("v2") for columns in read)


@pytest.mark.parametrize("size", [0, 1, 62, 63, 64, 8191, 8192, 2**20, 2**20 + 1])
def test_records_of_any_length_are_walked(size):
    """The varint of a record's length grows by a byte at these sizes, too."""
    for shorter in range(size - 20, size + 1):
        raws = raws_of(log_of([(TIME, None, b"v" * max(shorter, 0), ())]))
        [columns] = read_all(raws)
        assert is_walked(columns)
        assert [len(message.value) for message in columns] == [max(shorter, 0)]


def test_empty_batch_has_no_messages():
    columns, count = ColumnReader(PARTITION).read(raws_of(GOLDEN["v2-empty"]))
    assert (list(columns), count) == ([], 1)


def test_one_reader_reads_batches_with_and_without_keys():
    bare, keyed = [(TIME, None, b"v", ())] * 3, [(TIME, None, b"v", ()), (TIME, b"k", b"v", ())]
    with_headers = [(TIME, None, b"v", (("h", b"x"),)), (TIME, None, None, ())]
    for kinds in permutations((bare, keyed, with_headers, bare)):
        reader = ColumnReader(PARTITION)
        for records in kinds:
            raws = raws_of(log_of(records))
            columns, _ = reader.read(raws)
            assert is_walked(columns)
            assert list(columns) == messages_of(raws)


def test_columns_do_not_share_memory_with_later_ones():
    reader = ColumnReader(PARTITION)
    first, _ = reader.read(raws_of(log_of(some(100))))
    before = list(first)
    reader.read(raws_of(log_of([(0, None, b"else", ())] * 200)))
    assert list(first) == before


# -- batches in one read -------------------------------------------------------------------------------------


def test_batches_are_read_together_up_to_enough_messages():
    assert [len(columns) for columns in read_all(raws_of(log_of(*[some(1500)] * 6)))] == [4500, 4500]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_batches_are_read_together_up_to_enough_bytes(codec):
    read = read_all(raws_of(log_of(*[some(2, 2**20)] * 4, codec=codec)))
    assert [len(columns) for columns in read] == [4, 4]


def test_new_leader_epoch_or_timestamp_type_starts_new_columns():
    log = log_of(some(3)) + log_of(some(2), epoch=1, base=3) + log_of(some(1), epoch=1, base=5)
    appended = bytearray(log_of(some(4), epoch=1, base=6))
    appended[22] |= 0x08
    header = V2_HEADER.unpack_from(appended)
    log += sealed(header, bytes(appended[V2_HEADER.size :]))
    read = read_all(raws_of(log))
    assert [len(columns) for columns in read] == [3, 3, 4]
    assert all(is_walked(columns) for columns in read)
    assert {message.timestamp for message in read[-1]} == {header[8]}
    assert [message for columns in read for message in columns] == messages_of(raws_of(log))


# -- errors --------------------------------------------------------------------------------------------------


def mutations(rng: random.Random, good: bytes) -> bytes:
    body = bytearray(good[V2_HEADER.size :])
    header = list(V2_HEADER.unpack_from(good))
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(body))
        match rng.randrange(6):
            case 0:
                body[at] = rng.randrange(256)
            case 1:
                body[at] |= 0x80  # a varint that does not end here
            case 2:
                del body[at:]  # cut off
                body.append(rng.choice((0x80, 0xFF, 0x01)))
            case 3:
                body[at:at] = bytes([0xFF]) * rng.randrange(1, 11) + b"\x01"  # a huge number
            case 4:
                header[12] = rng.choice((-(2**31), -1, 0, 1, 2, 3, 50, 2**31 - 1))
            case 5:
                header[6] = rng.choice((-1, 0, 1, 2**31 - 1))
    return sealed(header, bytes(body))


def outcome(reader: ColumnReader, raws: Sequence[RawBatch]) -> tuple[list[Message], str]:
    """Return the messages before the first error, and the error's text."""
    messages: list[Message] = []
    raws = list(raws)
    try:
        while raws:
            columns, count = reader.read(raws)
            messages += columns
            del raws[:count]
    except RecordError as error:
        return messages, str(error)
    return messages, ""


def outcome_one_by_one(raws: Sequence[RawBatch]) -> tuple[list[Message], str]:
    messages: list[Message] = []
    try:
        for raw in raws:
            messages += decode(raw, PARTITION)
    except RecordError as error:
        return messages, str(error)
    return messages, ""


def test_mutated_batches_fail_as_when_decoded_one_by_one():
    rng = random.Random(21)
    headers = (("trace", b"\x80\xff"), ("trace", None), ("", b""))
    good_batches = [
        [(0, b"k", b"v", headers)],
        [(n, None, b"value", headers[:n]) for n in range(4)],
        [(0, None, None, ())],
    ]
    reader = ColumnReader(PARTITION)
    problems = set()
    for _ in range(6000):
        log = b""
        for place in range(rng.randrange(1, 4)):
            good = build(rng.choice(good_batches), base_offset=10 * place)
            log += mutations(rng, good) if rng.random() < 0.5 else good
        raws: list[RawBatch] = []
        with suppress(RecordError):
            raws.extend(split(log, PARTITION, 0))
        if raws:
            found = outcome(reader, raws)
            assert found == outcome_one_by_one(raws)
            problems.add(found[1])
    assert len(problems) > 100
    columns, _ = reader.read(raws_of(log_of(some(3))))
    assert is_walked(columns), "the reader still works"


def test_unreadable_batch_is_refused_only_when_it_is_first():
    good, bad = log_of(some(3)), bytearray(log_of(some(2), base=3))
    bad[bad.index(b"v")] ^= 1
    reader = ColumnReader(PARTITION)
    raws = raws_of(good + bytes(bad))
    columns, count = reader.read(raws)
    assert (len(columns), count) == (3, 1)
    with pytest.raises(CorruptRecordError, match="orders-3 at offset 3: the CRC"):
        reader.read(raws[1:])
    columns, count = ColumnReader(PARTITION, check_crc=False).read(raws)
    assert (len(columns), count) == (5, 2)


def test_decompressed_size_is_limited():
    reader = ColumnReader(PARTITION, limit=5000)
    raws = raws_of(log_of(some(3), some(3, 2**20), codec=Codec.ZSTD))
    _, count = reader.read(raws)
    assert count == 1
    with pytest.raises(DecompressionLimitError):
        reader.read(raws[1:])


def test_too_many_small_records_are_refused_by_both_readers():
    [raw] = raws_of(log_of([(0, None, None, ())] * 10_000))
    assert raw.size_bytes < 100_000
    for read in (ColumnReader(PARTITION, limit=100_000).read, lambda raws: decode(raws[0], PARTITION, limit=100_000)):
        with pytest.raises(DecompressionLimitError):
            read([raw])


def test_header_key_that_is_not_utf_8_is_refused():
    log = log_of([(0, None, None, (("trace", b""),))])
    body = log[V2_HEADER.size :].replace(b"trace", b"tr\xffce")
    with pytest.raises(CorruptRecordError, match="UTF-8"):
        ColumnReader(PARTITION).read(raws_of(sealed(V2_HEADER.unpack_from(log), body)))


# -- dependencies --------------------------------------------------------------------------------------------


def test_missing_packages_fall_back_with_one_warning(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "awkward_cpp.lib._ext", None)
    monkeypatch.delitem(sys.modules, "sarameya.protocol.records.record_walk", raising=False)
    column_reader._warn_of_missing_library.cache_clear()
    raws = raws_of(log_of(some(3), some(4)))
    for _ in range(2):
        [columns] = read_all(raws)
        assert not is_walked(columns)
        assert list(columns) == messages_of(raws)
    assert [record.getMessage().split(";")[0] for record in caplog.records] == ["awkward_cpp.lib._ext is missing"]


def test_numpy_is_imported_with_columns_and_pandas_never():
    """The imports take half a second and a hundred megabytes."""
    program = """if True:
        import sys
        from sarameya.message_batch import MessageBatch
        from sarameya.model import TopicPartition
        from sarameya.protocol.records.column_reader import ColumnReader
        from sarameya.protocol.records.batch_codec import build, split

        partition = TopicPartition("orders", 3)
        reader = ColumnReader(partition)
        assert not {"numpy", "pyarrow", "awkward_cpp"} & set(sys.modules)
        log = build([(1, None, b"v", (("h", b"v"),)), (1, b"k", None, ())])
        columns, _ = reader.read(split(log, partition, 0))
        table = MessageBatch(*partition, columns, 2).to_arrow()
        again = MessageBatch(*partition, list(columns), 2).to_arrow()
        assert table.equals(again) and table.num_rows == 2
        print("pandas" in sys.modules, "numpy" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False", "True"], done.stderr


def test_read_sizes_are_those_that_the_tests_assume():
    """Guard the constants that the other tests here rely on."""
    assert (column_reader._ENOUGH_MESSAGES, column_reader._ENOUGH_BYTES) == (4000, 4 * 2**20)
