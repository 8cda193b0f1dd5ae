"""Tests here have no Spark: counts of what it reads are of the fakes' own rows."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from sarameya_handlers.spark.delta import writing
from sarameya_handlers.spark.shaping import staged
from sarameya_handlers.spark.tables import foreach_batch
from sarameya_handlers.spark.tables.row_count import RowCount
from tests.handlers.spark.kit import FakeFrame


@attrs.frozen
class FakeRowCount:
    """What a job of a fake frame has read: all of it."""

    frame: FakeFrame

    @property
    def rows(self) -> int:
        return self.frame.table.num_rows


@pytest.fixture(autouse=True)
def _counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def readable(spark: Any, landing: Any) -> None: ...

    monkeypatch.setattr(RowCount, "of", FakeRowCount)
    for module in (staged, foreach_batch, writing):
        monkeypatch.setattr(module, "require_readable", readable)
