"""Checks on the content of a landed table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.land.contenders import DELTA, PARQUET
from bench.land.landed import Expected, batches, fault, files

ENDS = (3, 2)
VALUES = (b"a", b"b", b"c", b"d")
EXPECTED = Expected(ENDS, pa.table({"value": pa.array(VALUES, pa.binary())}))
"""Five messages by partition and offset: a (0, 0), b (1, 0), c (0, 1), d (1, 1), and a again (0, 2)."""
WHOLE = [(0, 0, b"a"), (1, 0, b"b"), (0, 1, b"c"), (1, 1, b"d"), (0, 2, b"a")]


def rows(*content: tuple[int, int, bytes]) -> pa.RecordBatch:
    partitions, offsets, values = zip(*content, strict=True)
    return pa.record_batch(
        {
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "value": pa.array(values, pa.binary()),
        }
    )


def write(file: Path, *content: tuple[int, int, bytes]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_batches([rows(*content)]), file)


def commit(table: Path, version: int, *actions: dict[str, dict[str, str]]) -> None:
    log = table / "_delta_log" / f"{version:020}.json"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def test_parquet_table_is_read_without_hidden_files(tmp_path: Path) -> None:
    write(tmp_path / "part-0.parquet", *WHOLE[:2])
    write(tmp_path / "part-1.parquet", *WHOLE[2:])
    write(tmp_path / "_sarameya" / "staging" / "part-3.parquet", WHOLE[0])
    write(tmp_path / "_spark_metadata" / "part-4.parquet", WHOLE[0])
    found = files(PARQUET, tmp_path)

    assert sorted(file.name for file in found) == ["part-0.parquet", "part-1.parquet"]
    assert fault(batches(found, ["value"]), EXPECTED) is None


def test_delta_table_is_read_with_the_files_of_its_log(tmp_path: Path) -> None:
    write(tmp_path / "part 0.parquet", *WHOLE[:2])
    write(tmp_path / "part-1.parquet", *WHOLE[2:])
    write(tmp_path / "part-2.parquet", *WHOLE)
    write(tmp_path / "part-3.parquet", *WHOLE)
    commit(tmp_path, 0, {"metaData": {}}, {"add": {"path": "part%200.parquet"}})
    commit(tmp_path, 1, {"commitInfo": {}}, {"add": {"path": "part-2.parquet"}})
    commit(tmp_path, 2, {"remove": {"path": "part-2.parquet"}}, {"add": {"path": "part-1.parquet"}})
    found = files(DELTA, tmp_path)

    assert [file.name for file in found] == ["part 0.parquet", "part-1.parquet"]
    assert fault(batches(found, ["value"]), EXPECTED) is None


@pytest.mark.parametrize("kind", [PARQUET, DELTA])
def test_empty_table_lacks_every_message(kind: str, tmp_path: Path) -> None:
    assert fault(batches(files(kind, tmp_path / "none"), ["value"]), EXPECTED) == (
        "partition 0 lacks 3 of 3 messages, and has 0 more than once, offset 0 first"
    )


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (WHOLE[:4], "partition 0 lacks 1 of 3 messages, and has 0 more than once, offset 2 first"),
        ([*WHOLE, WHOLE[3]], "partition 1 lacks 0 of 2 messages, and has 1 more than once, offset 1 first"),
        ([*WHOLE[:4], WHOLE[2]], "partition 0 lacks 1 of 3 messages, and has 1 more than once, offset 2 first"),
        ([*WHOLE, (1, 2, b"b")], "there is a row of partition 1, offset 2"),
        ([*WHOLE, (2, 0, b"b")], "there is a row of partition 2, offset 0"),
        ([*WHOLE, (-1, 0, b"b")], "there is a row of partition -1, offset 0"),
        ([*WHOLE, (0, -1, b"b")], "there is a row of partition 0, offset -1"),
        ([*WHOLE[:4], (0, 2, b"c")], "partition 0, offset 2 has other values: [{'value': b'c'}]"),
    ],
    ids=[
        "missing",
        "twice",
        "repeated instead of another",
        "after the end",
        "no such partition",
        "negative partition",
        "negative offset",
        "other value",
    ],
)
def test_table_that_differs_from_the_topic_has_a_fault(content: Sequence[tuple[int, int, bytes]], wrong: str) -> None:
    assert fault([rows(*content[:3]), rows(*content[3:])], EXPECTED) == wrong
