from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sarameya import HandlerError, TopicPartition
from sarameya_handlers import ParquetTable
from sarameya_handlers.spark.table import Landing
from tests.handlers.spark.kit import FakeFrame


def landing(topic: str = "orders", attempt: str = "a1") -> Landing:
    return Landing(partition=TopicPartition(topic, 3), from_offset=5, to_offset=8, rows=3, attempt=attempt)


@pytest.fixture
def table(tmp_path: Path) -> ParquetTable:
    table = ParquetTable(tmp_path / "landing" / "orders")
    table.open()
    return table


def visible(table: ParquetTable) -> list[str]:
    return sorted(path.name for path in table.path.iterdir() if path.name != "_sarameya")


def hidden(table: ParquetTable) -> list[Path]:
    return [path for path in (table.path / "_sarameya").rglob("*") if path.is_file()]


ROWS = pa.table({"offset": [5, 6, 7]})


def test_append_publishes_one_file_named_by_its_landing(table: ParquetTable) -> None:
    assert table.append(landing(), FakeFrame(ROWS), lambda: None) == 3
    assert visible(table) == ["part-orders-3-00000000000000000005-00000000000000000008-a1.parquet"]
    assert pq.read_table(table.path).equals(ROWS)
    assert hidden(table) == []


def test_appends_of_the_same_range_do_not_overwrite_each_other(table: ParquetTable) -> None:
    for attempt in ("a1", "a2"):
        table.append(landing(attempt=attempt), FakeFrame(ROWS), lambda: None)
    assert pq.read_table(table.path).num_rows == 6


def test_append_of_no_rows_publishes_nothing(table: ParquetTable) -> None:
    assert table.append(landing(), FakeFrame(ROWS.slice(0, 0)), lambda: None) == 0
    assert visible(table) == []


def test_append_that_is_no_longer_wanted_publishes_nothing(table: ParquetTable) -> None:
    class Unwanted(Exception):
        pass

    def checkpoint() -> None:
        raise Unwanted

    with pytest.raises(Unwanted):
        table.append(landing(), FakeFrame(ROWS), checkpoint)
    assert visible(table) == []
    assert hidden(table) == []


def test_append_whose_write_fails_leaves_nothing(table: ParquetTable) -> None:
    class Failing(FakeFrame):
        def parquet(self, path: str) -> None:
            super().parquet(path)
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        table.append(landing(), Failing(ROWS), lambda: None)
    assert visible(table) == []
    assert hidden(table) == []


def test_append_of_the_longest_topic_name_fits_a_file_name(table: ParquetTable) -> None:
    table.append(landing(topic="t" * 249), FakeFrame(ROWS), lambda: None)
    assert len(visible(table)) == 1


def test_constructor_touches_nothing(tmp_path: Path) -> None:
    ParquetTable(tmp_path / "landing")
    assert list(tmp_path.iterdir()) == []


def test_open_twice_is_harmless(table: ParquetTable) -> None:
    table.open()
    assert visible(table) == []


def test_open_removes_what_was_left_more_than_a_day_ago_and_nothing_else(table: ParquetTable) -> None:
    table.append(landing(), FakeFrame(ROWS), lambda: None)
    (published,) = table.path.glob("part-*")
    unfinished = [table.path / "_sarameya" / "landing" / name for name in ("old", "young")]
    staged = [table.staging / name for name in ("old.parquet", "young.parquet")]
    for directory in unfinished:
        (directory / "_temporary").mkdir(parents=True)
    for file in staged:
        file.touch()
    for path in (unfinished[0], staged[0], published):
        os.utime(path, (0, time.time() - 24 * 3600 - 60))
    for path in (unfinished[1], staged[1]):
        os.utime(path, (0, time.time() - 24 * 3600 + 3600))
    table.open()
    assert [path.exists() for path in (*unfinished, *staged, published)] == [False, True, False, True, True]


def test_relative_path_is_that_of_its_making(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = ParquetTable("landing")
    monkeypatch.chdir("/")
    assert table.path == tmp_path / "landing"


def test_directory_that_cannot_be_made_is_named_with_the_cause(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HandlerError, match=r"cannot land in .*/file/orders: Not a directory .*; choose a directory"):
        ParquetTable(tmp_path / "file" / "orders").open()


def test_directory_that_cannot_be_written_is_named_with_the_cause(
    table: ParquetTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    # The tests may run as root, whom no mode of a directory keeps out.
    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(HandlerError, match=r"cannot land in .*/orders: Permission denied; choose"):
        table.open()
