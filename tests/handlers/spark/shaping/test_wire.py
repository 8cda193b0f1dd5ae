from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from sarameya.registry.wire import Prefix
from sarameya_handlers.spark.shaping.formats.wire import PrefixSurvey, survey

SEVEN = b"\x00\x00\x00\x00\x07"


def zigzag(number: int) -> bytes:
    """Encode a number that is not negative, as a serializer does."""
    left, written = number << 1, b""
    while True:
        left, byte = left >> 7, left & 0x7F
        if not left:
            return written + bytes([byte])
        written += bytes([byte | 0x80])


def message(*path: int) -> bytes:
    return b"".join(map(zigzag, (len(path), *path)))


def survey_column(values: Sequence[bytes | None], *, with_message: bool, chunks: int = 1) -> PrefixSurvey:
    step = max(1, len(values) // chunks)
    parts = [list(values[n : n + step]) for n in range(0, len(values), step)]
    return survey(pa.chunked_array(parts, pa.binary()), with_message=with_message)


def problems(values: Sequence[bytes | None], *, with_message: bool) -> list[tuple[int, str]]:
    found = survey_column(values, with_message=with_message)
    return found.rows_of(found.problems)


@pytest.mark.parametrize("chunks", [1, 3, 7])
def test_schema_ids_are_found_across_chunks(chunks: int) -> None:
    values = [SEVEN + b"a", None, SEVEN, b"\x00\x7f\xff\xff\xff", None, SEVEN + b"b", None]
    found = survey_column(values, with_message=False, chunks=chunks)
    assert {prefix.schema_id for prefix in found.prefixes.values()} == {7, 2**31 - 1}
    assert not found.problems
    assert found.codes.to_pylist() == [SEVEN, None, SEVEN, b"\x00\x7f\xff\xff\xff", None, SEVEN, None]


@pytest.mark.parametrize("values", [[], [None, None]])
def test_column_without_records_has_no_ids(values: list[Any]) -> None:
    found = survey_column(values, with_message=True)
    assert (found.prefixes, found.problems, found.rows_of({b"": "x"})) == ({}, {}, [])


@pytest.mark.parametrize(
    ("written", "path"),
    [
        (b"\x00", (0,)),
        (message(0), (0,)),
        (message(1), (1,)),
        (message(2, 0), (2, 0)),
        (message(300), (300,)),
        (message(1, 200, 0, 5), (1, 200, 0, 5)),
        (message(*range(32)), tuple(range(32))),
    ],
)
def test_message_path_ends_with_its_prefix(written: bytes, path: tuple[int, ...]) -> None:
    values = [SEVEN + written + bytes([n]) * 20 for n in range(50)]
    assert survey_column(values, with_message=True).prefixes == {SEVEN + written: Prefix(7, path)}


def test_prefixes_of_different_lengths_are_distinguished() -> None:
    values = [SEVEN + message(*path) + b"\x08\x01" for path in [(1,), (1, 0), (1, 0, 4), (0,)]] + [SEVEN + b"\x00"]
    found = survey_column(values, with_message=True)
    assert sorted(prefix.message for prefix in found.prefixes.values() if prefix.message) == sorted(
        [(0,), (0,), (1,), (1, 0), (1, 0, 4)]
    )
    assert sorted(map(len, found.prefixes)) == [6, 7, 7, 8, 9]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"", "it ends within its schema registry header, after 0 bytes"),
        (b"\x00\x00\x00\x00", "it ends within its schema registry header, after 4 bytes"),
        (b"{}", "it has no schema registry header: its first byte is 0x7b, not 0x00"),
        (b"\x00\x80\x00\x00\x00x", "its header has the schema id -2147483648, which no schema has"),
        (b"\x01\x00\x00\x00\x07x", "it has no schema registry header: its first byte is 0x01, not 0x00"),
    ],
)
@pytest.mark.parametrize("with_message", [False, True])
def test_incomplete_header_is_reported_by_row(value: bytes, expected: str, with_message: bool) -> None:
    good = SEVEN + b"\x00"
    assert problems([good, value, None, value], with_message=with_message) == [(1, expected), (3, expected)]


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (b"", "it ends within its schema registry header, after 5 bytes"),
        (b"\x04", "it ends within its schema registry header, after 6 bytes"),
        (b"\x04\x02", "it ends within its schema registry header, after 7 bytes"),
        (b"\x04\x02\x80", "it ends within its schema registry header, after 8 bytes"),
        (b"\x01abc", "its header has a list of -1 message indexes"),
        (zigzag(33) + b"abc", "its header has a list of 33 message indexes"),
        (b"\x02\x01abc", "its header has a message index of -1"),
        (b"\xff" * 9, "its header has a message index without end"),
    ],
)
def test_broken_message_indexes_are_reported(rest: bytes, expected: str) -> None:
    assert problems([SEVEN + b"\x00", SEVEN + rest], with_message=True) == [(1, expected)]


def test_all_different_headers_are_reported() -> None:
    values = [n.to_bytes(3, "big") * 3 for n in range(0x010000, 0x010000 + 1000)]
    assert [row for row, _ in problems(values, with_message=True)] == list(range(1000))
