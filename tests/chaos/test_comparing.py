"""The comparison finds each row that is missing, duplicated, unknown or changed, with every reader."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.chaos.comparison import Row, differences, gaps, sequence_of, value_of
from tests.chaos.readers import delta_rows, iceberg_rows, parquet_rows

LOG = [Row(partition, offset, b"k", value_of(offset, 30)) for partition in (0, 1) for offset in range(10)]
ENDS = {0: 10, 1: 10}


def test_complete_table_in_any_order_has_no_differences() -> None:
    assert differences(LOG, LOG[::-1], ENDS) == []


def test_missing_row_is_found() -> None:
    assert differences(LOG, LOG[:3] + LOG[4:], ENDS) == ["1 rows missing: 0@3"]


def test_missing_partition_is_found() -> None:
    assert differences(LOG, LOG[:10], ENDS) == ["10 rows missing: 1@0, 1@1, 1@2, 1@3, 1@4 ..."]


def test_duplicate_row_is_found() -> None:
    assert differences(LOG, [*LOG, LOG[12]], ENDS) == ["1 rows more than once: 1@2"]


def test_row_not_in_the_log_is_found() -> None:
    unknown = Row(1, 10, None, b"x 10")
    assert differences(LOG, [*LOG, unknown], ENDS) == ["1 rows not in the log: 1@10"]


@pytest.mark.parametrize("changed", [{"value": b"x 5"}, {"key": None}, {"value": None}])
def test_changed_key_or_value_is_found(changed: dict[str, bytes | None]) -> None:
    table = [*LOG[:5], LOG[5]._replace(**changed), *LOG[6:]]
    assert differences(LOG, table, ENDS) == ["1 rows with another key or value: 0@5"]


def test_rows_after_the_committed_offset_are_optional() -> None:
    assert differences(LOG, LOG[:15], {0: 10, 1: 5}) == []
    assert differences(LOG, LOG[:15], {0: 10, 1: 6}) == ["1 rows missing: 1@5"]


def test_lost_and_repeated_records_of_the_log_are_found() -> None:
    assert gaps(LOG, ENDS) == []
    assert gaps(LOG[:-1], ENDS) == ["the log of partition 1 has lost acknowledged records"]
    assert gaps([*LOG, Row(1, 10, None, value_of(4, 30))], ENDS) == [
        "the log of partition 1 has records twice or out of order"
    ]


@pytest.mark.parametrize("size", [1, 30, 300])
def test_value_ends_in_its_sequence_number(size: int) -> None:
    assert sequence_of(value_of(1234, size)) == 1234
    assert len(value_of(1234, size)) == max(size, 5)


def test_row_in_two_files_is_found_as_duplicate(tmp_path: Path) -> None:
    columns = {name: [row[n] for row in LOG] for n, name in enumerate(Row._fields)}
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "a.parquet")
    assert differences(LOG, parquet_rows(tmp_path), ENDS) == []
    pq.write_table(table.slice(3, 1), tmp_path / "b.parquet")
    assert differences(LOG, parquet_rows(tmp_path), ENDS) == ["1 rows more than once: 0@3"]


def test_missing_table_has_no_rows(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    assert [list(reader(tmp_path / "none")) for reader in (parquet_rows, delta_rows, iceberg_rows)] == [[], [], []]
