"""Readers of the plain directory that do not know of links, while members land in it and while it is compacted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from sarameya_handlers import ParquetTable, landed_files
from tests.handlers.spark.parquet.lander import Lander

READS = 5

Read = Callable[[Sequence[str]], list[int]]
"""Function that returns the offsets in files, given by their names or by a pattern."""


def by_pyarrow(files: Sequence[str]) -> list[int]:
    return ds.dataset([*files], format="parquet").to_table(["offset"])["offset"].to_pylist()  # type: ignore[no-any-return]


def by_duckdb(files: Sequence[str]) -> list[int]:
    with duckdb.connect() as connection:
        query = 'select "offset" from read_parquet($files)'
        return [row[0] for row in connection.execute(query, {"files": [*files]}).fetchall()]


def by_polars(files: Sequence[str]) -> list[int]:
    return polars.read_parquet([*files], columns=["offset"])["offset"].to_list()


def by_pyarrow_directory(root: Path) -> list[int]:
    return ds.dataset(root, format="parquet").to_table(["offset"])["offset"].to_pylist()  # type: ignore[no-any-return]


PLAIN: dict[str, Callable[[Path], list[int]]] = {
    "pyarrow": by_pyarrow_directory,
    "duckdb": lambda root: by_duckdb([f"{root}/*.parquet"]),
    "polars": lambda root: by_polars([f"{root}/*.parquet"]),
}
LISTED: dict[str, Read] = {"pyarrow": by_pyarrow, "duckdb": by_duckdb, "polars": by_polars}
MOVED = (FileNotFoundError, pa.ArrowException, duckdb.Error, polars.exceptions.PolarsError)
"""Exceptions of readers for a file that has moved since they listed it."""


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.fixture
def lander(tmp_path: Path) -> Lander:
    return Lander(ParquetTable(tmp_path / "landed"))


@pytest.mark.parametrize("reader", PLAIN)
def test_fault_63_plain_readers_see_rows_once_during_landings(reader: str, lander: Lander) -> None:
    with lander.landing():
        for _ in range(READS):
            landed = lander.landed
            counts = Counter(PLAIN[reader](lander.table.path))
            assert set(counts.values()) == {1}
            assert set(range(landed)) <= set(counts)


@pytest.mark.parametrize("reader", LISTED)
def test_fault_63_readers_of_landed_files_see_each_row_once(reader: str, lander: Lander) -> None:
    """The directory is also compacted. A file that has moved is an error, never a missing row."""
    with lander.landing():
        for _ in range(READS):
            lander.compact_soon()
            landed = lander.landed
            counts = read_again_if_moved(LISTED[reader], lander.table.path)
            assert set(counts.values()) == {1}
            assert set(range(landed)) <= set(counts)


def read_again_if_moved(read: Read, root: Path) -> Counter[int]:
    """Return how often each offset is read. Read again if a compaction has moved a file in between."""
    try:
        return Counter(read(landed_files(root)))
    except MOVED:
        return read_again_if_moved(read, root)


@pytest.mark.parametrize("reader", PLAIN)
def test_plain_readers_see_no_row_twice_during_a_compaction(reader: str, lander: Lander) -> None:
    """Rows are missing for a moment, as docs/tables.md says, or the reader fails."""
    with lander.landing():
        for _ in range(4 * READS):
            lander.compact_soon()
            with suppress(*MOVED):
                assert set(Counter(PLAIN[reader](lander.table.path)).values()) <= {1}
    assert Counter(PLAIN[reader](lander.table.path)) == Counter(range(lander.landed))


def test_documented_globs_skip_hidden_files(tmp_path: Path) -> None:
    for hidden in ("", "_sarameya/landing/a1/", "_sarameya/replaced/1/"):
        for day in range(2):
            where = tmp_path / f"{hidden}day={day}"
            where.mkdir(parents=True)
            polars.DataFrame({"offset": [day]}).write_parquet(where / "part.parquet")
    pattern = f"{tmp_path}/*=*/*.parquet"
    assert sorted(by_duckdb([pattern])) == sorted(by_polars([pattern])) == [0, 1]
    assert sorted(by_pyarrow_directory(tmp_path)) == [0, 1]
