"""What is read of a table, and what it is held to."""

from __future__ import annotations

from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.land.landed import Landed, Rows, fault, read


def write(file: Path, partition: int, offsets: list[int], value: bytes = b"12") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    columns = {
        "partition": pa.array([partition] * len(offsets), pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "value": pa.array([value] * len(offsets), pa.binary()),
    }
    pq.write_table(pa.table(columns), file)


def test_table_is_read_with_all_its_files_but_hidden_ones(tmp_path: Path) -> None:
    write(tmp_path / "part-0.parquet", 0, [0, 1, 2])
    write(tmp_path / "part-1.parquet", 1, [5])
    write(tmp_path / "part-2.parquet", 0, [3, 1])
    write(tmp_path / "_sarameya" / "staging" / "part-3.parquet", 0, [7])
    write(tmp_path / "_spark_metadata" / "part-4.parquet", 0, [8])

    assert read(tmp_path) == Landed({0: Rows(5, 4, 0, 3, 10), 1: Rows(1, 1, 5, 5, 2)}, files=3)


def test_table_with_each_message_once_has_no_fault(tmp_path: Path) -> None:
    write(tmp_path / "part-0.parquet", 1, [0, 1])
    write(tmp_path / "part-1.parquet", 0, [1, 2])
    write(tmp_path / "part-2.parquet", 0, [0])

    assert fault(read(tmp_path), ends=[3, 2], size=2) is None


def test_table_that_nothing_has_landed_in_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path) == read(tmp_path / "none") == Landed({}, 0)


WHOLE = Rows.whole(3, 2)


@pytest.mark.parametrize(
    "wrong",
    [
        {0: WHOLE},
        {0: WHOLE, 1: WHOLE, 2: Rows(1, 1, 0, 0, 2)},
        {0: WHOLE, 1: attrs.evolve(WHOLE, rows=2, offsets=2)},
        {0: WHOLE, 1: attrs.evolve(WHOLE, rows=4)},
        {0: WHOLE, 1: attrs.evolve(WHOLE, offsets=2)},
        {0: WHOLE, 1: attrs.evolve(WHOLE, first=1, last=3)},
        {0: WHOLE, 1: attrs.evolve(WHOLE, value_bytes=4)},
    ],
    ids=["partition missing", "partition too many", "row missing", "row twice", "one for another", "moved", "no value"],
)
def test_table_with_anything_else_is_at_fault(wrong: dict[int, Rows]) -> None:
    assert fault(Landed(wrong, 1), ends=[3, 3], size=2) is not None
