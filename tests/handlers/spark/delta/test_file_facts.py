"""What a Delta commit says of a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sarameya_handlers.spark.delta.file_facts import statistics
from tests.handlers.spark.delta.adopted import staged
from tests.handlers.spark.delta.kit import link


def told(tmp_path: Path, **columns: list[object]) -> dict[str, dict[str, object]]:
    landing = staged(tmp_path, link(1), **columns)
    assert landing.staged is not None
    facts: dict[str, dict[str, object]] = json.loads(statistics(landing.staged))
    return facts


def test_rows_nulls_and_spans_of_flat_columns(tmp_path: Path) -> None:
    facts = told(tmp_path, key=[b"k", *[None] * 9])
    assert facts["numRecords"] == 10
    assert facts["nullCount"] == {
        "key": 9, "value": 0, "topic": 0, "partition": 0, "offset": 0, "timestamp": 0, "timestampType": 0
    }  # fmt: skip
    numbers = {"topic": "orders", "partition": 0, "timestampType": 0}
    # A timestamp is rounded: it lies between them.
    assert facts["minValues"] == {**numbers, "offset": 0, "timestamp": "2023-11-14T22:13:20.000Z"}
    assert facts["maxValues"] == {**numbers, "offset": 9, "timestamp": "2023-11-14T22:13:20.001Z"}


@pytest.mark.parametrize("clock", [2**62, -(2**62)])
def test_clock_that_is_no_year_has_no_span(tmp_path: Path, clock: int) -> None:
    assert "timestamp" not in told(tmp_path, timestamp=[clock, *[0] * 9])["minValues"]


def test_clock_before_1970_is_one(tmp_path: Path) -> None:
    facts = told(tmp_path, timestamp=[-1, *[0] * 9])
    assert facts["minValues"]["timestamp"] == "1969-12-31T23:59:59.999Z"
    assert facts["maxValues"]["timestamp"] == "1970-01-01T00:00:00.000Z"


def test_column_of_nulls_has_no_span(tmp_path: Path) -> None:
    facts = told(tmp_path, timestamp=[None] * 10)
    assert facts["nullCount"]["timestamp"] == 10
    assert "timestamp" not in facts["minValues"]
