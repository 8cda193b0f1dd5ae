"""Spark and delta-rs as readers that do not know links, while members land and files are compacted."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import deltalake
import pytest

from sarameya_handlers import ParquetTable, read_landing
from sarameya_handlers.spark.delta.table import DeltaTable
from sarameya_handlers.spark.errors import text_of
from tests.handlers.spark.parquet.lander import Lander
from tests.integration.delta_stage import land, link
from tests.integration.lake_stage import classic, found

pytestmark = [
    pytest.mark.integration,
    # pyspark leaves sockets open when rows are collected.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

READS = 3
MAX_JOBS = 30
LINKS, ROWS = 4, 3
"""Number of links of the Delta table, and of rows in each."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with classic(tmp_path_factory.mktemp("lake")) as session:
        yield session


@pytest.fixture
def lander(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lander:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    return Lander(ParquetTable(tmp_path / "landed"))


def times(frame: Any) -> Counter[int]:
    return Counter(row[0] for row in frame.select("offset").collect())


def has_moved(error: Exception) -> bool:
    """Return whether Spark reports a missing file."""
    text = text_of(error) or ""
    names = ("FILE_NOT_EXIST", "does not exist", "PATH_NOT_FOUND", "FileNotFoundException", "NoSuchFileException")
    return any(name in text for name in names)


def test_fault_63_spark_sees_each_row_once_during_landings(spark: Any, lander: Lander) -> None:
    with lander.landing():
        for _ in range(READS):
            landed = lander.landed
            seen = times(spark.read.parquet(str(lander.table.path)))
            assert set(seen.values()) == {1}
            assert set(range(landed)) <= set(seen)


def test_fault_63_spark_reads_each_row_once_during_compactions(spark: Any, lander: Lander) -> None:
    """A file that was moved during the read is an error, never a missing row."""
    seen, has_failed = 0, False
    with lander.landing():
        for _ in range(MAX_JOBS):
            landed = lander.landed
            if not has_failed:  # on a busy machine each read might meet the compaction requested here
                lander.compact_soon()
            try:
                rows = times(read_landing(spark, lander.table.path))
            except Exception as error:
                if not has_moved(error):
                    raise
                has_failed = True
                continue
            has_failed = False
            assert set(rows.values()) == {1}
            assert set(range(landed)) <= set(rows)
            seen += 1
            if seen == READS:
                return
    raise AssertionError(f"of {MAX_JOBS} reads, only {seen} met no moved file")


def test_spark_reads_no_row_twice_during_compactions(spark: Any, lander: Lander) -> None:
    """A plain read may miss rows for a moment, or fail, as docs/tables.md says."""
    path = str(lander.table.path)
    with lander.landing():
        for _ in range(2 * READS):
            lander.compact_soon()
            try:
                assert set(times(spark.read.parquet(path)).values()) <= {1}
            except Exception as error:
                if not has_moved(error):
                    raise
    assert times(spark.read.parquet(path)) == Counter(range(lander.landed))


@contextmanager
def landing(spark: Any, table: DeltaTable, path: str) -> Iterator[Callable[[], bool]]:
    """Land links in a thread, with an OPTIMIZE of the same driver after each. Yield `is_over()`."""
    failures = list[BaseException]()

    def work() -> None:
        try:
            for number in range(2, LINKS + 1):
                land(spark, table, link(number, ROWS * (number - 1), ROWS * number))
                spark.sql(f"OPTIMIZE delta.`{path}`").collect()
        except BaseException as error:
            failures.append(error)
            raise

    thread = threading.Thread(target=work)
    land(spark, table, link(1, 0, ROWS))
    thread.start()
    try:
        yield lambda: not thread.is_alive()
    finally:
        thread.join()
    assert failures == []


def by_delta_rs(path: str) -> Counter[int]:
    return Counter(deltalake.DeltaTable(path).to_pyarrow_table(columns=["offset"])["offset"].to_pylist())


def test_fault_63_spark_and_delta_rs_see_each_row_of_delta_once(spark: Any, tmp_path: Path) -> None:
    """Members land and OPTIMIZE merges files meanwhile. Replaced files stay until VACUUM."""
    path = str(tmp_path / "table")
    table = DeltaTable(path)
    table.open(spark)
    readers = (lambda: times(spark.read.format("delta").load(path)), lambda: by_delta_rs(path))
    with landing(spark, table, path) as is_over:
        seen = [0, 0]
        while not is_over():
            for reader, rows in enumerate(seen):
                found = readers[reader]()
                assert found == Counter(range(found.total())), "each row of complete links once"
                assert found.total() % ROWS == 0
                assert found.total() >= rows
                seen[reader] = found.total()
    assert all(read() == Counter(range(LINKS * ROWS)) for read in readers)


def test_fault_63_table_compacted_by_delta_rs_still_lands(spark: Any, tmp_path: Path) -> None:
    """Members must be stopped on a plain file system, where two concurrent commits can lose one (docs/tables.md)."""
    path = str(tmp_path / "table")
    table = DeltaTable(path)
    table.open(spark)
    chain = [link(number, ROWS * (number - 1), ROWS * number) for number in range(1, 4)]
    land(spark, table, *chain[:2])
    assert deltalake.DeltaTable(path).optimize.compact()["numFilesRemoved"] == 2
    land(spark, table, chain[2])
    assert found(spark, table) == [(one.number, one.attempt) for one in chain]
    assert times(spark.read.format("delta").load(path)) == by_delta_rs(path) == Counter(range(3 * ROWS))
