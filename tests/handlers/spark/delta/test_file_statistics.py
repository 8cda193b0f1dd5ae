"""Statistics of a data file in a Delta commit."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sarameya_handlers.spark.delta.file_statistics import FileStatistics
from tests.handlers.spark.delta.direct_commit_process import staged
from tests.handlers.spark.delta.kit import link


def of_records(tmp_path: Path, **columns: list[object]) -> dict[str, dict[str, object]]:
    landing = staged(tmp_path, link(1), **columns)
    assert landing.staged is not None
    return statistics(landing.staged.path, 32)


def statistics(file: Path, indexed: int) -> dict[str, dict[str, object]]:
    found = FileStatistics.of(pq.read_metadata(file), file.stat().st_size, indexed)
    facts: dict[str, dict[str, object]] = json.loads(found.statistics)
    return facts


def test_flat_columns_have_counts_nulls_and_ranges(tmp_path: Path) -> None:
    facts = of_records(tmp_path, key=[b"k", *[None] * 9])
    assert facts["numRecords"] == 10
    assert facts["nullCount"] == {
        "key": 9, "value": 0, "topic": 0, "partition": 0, "offset": 0, "timestamp": 0, "timestampType": 0
    }  # fmt: skip
    numbers = {"topic": "orders", "partition": 0, "timestampType": 0}
    # Timestamps have microseconds. The range is rounded outwards to milliseconds.
    assert facts["minValues"] == {**numbers, "offset": 0, "timestamp": "2023-11-14T22:13:20.000Z"}
    assert facts["maxValues"] == {**numbers, "offset": 9, "timestamp": "2023-11-14T22:13:20.001Z"}


@pytest.mark.parametrize("clock", [2**62, -(2**62)])
def test_timestamp_out_of_range_has_no_range(tmp_path: Path, clock: int) -> None:
    assert "timestamp" not in of_records(tmp_path, timestamp=[clock, *[0] * 9])["minValues"]


def test_timestamp_before_1970_has_a_range(tmp_path: Path) -> None:
    facts = of_records(tmp_path, timestamp=[-1, *[0] * 9])
    assert facts["minValues"]["timestamp"] == "1969-12-31T23:59:59.999Z"
    assert facts["maxValues"]["timestamp"] == "1970-01-01T00:00:00.000Z"


def test_column_of_nulls_has_no_range(tmp_path: Path) -> None:
    facts = of_records(tmp_path, timestamp=[None] * 10)
    assert facts["nullCount"]["timestamp"] == 10
    assert "timestamp" not in facts["minValues"]


def of_rows(tmp_path: Path, indexed: int = 32, **columns: object) -> dict[str, dict[str, object]]:
    """Return the statistics of a file with these columns."""
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table(columns), file)
    return statistics(file, indexed)


def test_range_of_long_text_is_truncated(tmp_path: Path) -> None:
    facts = of_rows(tmp_path, short=["a", "b"], long=["a" * 40, "b" * 40])
    assert facts["minValues"] == {"short": "a", "long": "a" * 32}
    assert facts["maxValues"] == {"short": "b", "long": "b" * 32 + "\U0010ffff"}


def test_text_without_an_upper_bound_has_no_range(tmp_path: Path) -> None:
    facts = of_rows(tmp_path, name=["a", "b" * 32 + "\U0010ffff" * 2])
    assert facts["maxValues"] == {}
    assert facts["nullCount"] == {"name": 0}


def test_invalid_utf8_has_no_range(tmp_path: Path) -> None:
    text = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"], pa.binary()).buffers())
    assert of_rows(tmp_path, name=text)["maxValues"] == {}


def test_dates_have_a_range_but_booleans_and_floats_do_not(tmp_path: Path) -> None:
    days = [date(2026, 11, 22), None, date(1969, 1, 1)]
    facts = of_rows(tmp_path, day=days, done=[True, False, None], share=[0.5, float("nan"), 1.0])
    assert facts["minValues"] == {"day": "1969-01-01"}
    assert facts["maxValues"] == {"day": "2026-11-22"}
    assert facts["nullCount"] == {"day": 1, "done": 1, "share": 0}


def test_indexed_columns_are_limited_by_the_table(tmp_path: Path) -> None:
    columns = {f"c{number}": [number] for number in range(5)}
    assert [*of_rows(tmp_path, 2, **columns)["minValues"]] == ["c0", "c1"]
    assert [*of_rows(tmp_path, -1, **columns)["minValues"]] == [*columns]
    assert of_rows(tmp_path, 0, **columns)["nullCount"] == {}
