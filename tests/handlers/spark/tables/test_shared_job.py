"""A Spark job that writes several attempts."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.delta.row_files import _only_file
from sarameya_handlers.spark.tables import one_job
from sarameya_handlers.spark.tables.one_job import write_each


@attrs.frozen
class Frame:
    """Rows of one attempt; a union of frames writes those of the first."""

    name: str = ""

    def coalesce(self, _: int) -> Self:
        return self

    def withColumn(self, _: str, value: str) -> Frame:
        return Frame(value)

    def union(self, _: Frame) -> Frame:
        return self

    def parquet(self, url: str) -> None:
        directory = Path(url.removeprefix("file://"), f"_sarameya_attempt={self.name}")
        directory.mkdir(parents=True)
        pq.write_table(pa.table({"offset": [1]}), directory / "part-0.parquet")


def test_attempt_without_rows_among_others_has_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replacements: dict[str, Any] = {
        "_writer": lambda frame, partition_by: frame,
        "functions_for": lambda frame: SimpleNamespace(lit=str),
        "is_local": lambda spark: True,
        "temporary_settings": lambda spark, settings: nullcontext(),
    }
    for name, value in replacements.items():
        monkeypatch.setattr(one_job, name, value)
    store = LocalStore(tmp_path)
    write_each(None, store, ["a1", "a2"], [Frame(), Frame()])  # type: ignore[arg-type, list-item]
    row_file = _only_file(store, "a1", [])
    assert row_file is not None
    assert row_file.file == "a1/part-0.parquet"
    assert _only_file(store, "a2", []) is None
    assert [path.name for path in tmp_path.iterdir()] == ["a1"]
