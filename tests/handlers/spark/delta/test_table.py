"""A Delta table's landings, up to what Spark is told to write. No Spark runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from sarameya_handlers.landing.links import Link
from sarameya_handlers.spark.delta.table import DeltaTable
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Landing, Phase
from tests.handlers.spark.delta.kit import FakeHistorySpark, History, link


class Spark(FakeHistorySpark):
    """Knows of a table, and its history."""

    def sql(self, text: str) -> Any:
        if not text.startswith("DESCRIBE DETAIL"):
            return super().sql(text)
        detail = {"format": "delta", "location": "s3a://lake/orders", "properties": {}}
        row = SimpleNamespace(**detail, partitionColumns=[], tableFeatures=[])
        return SimpleNamespace(collect=lambda: [row])


@attrs.define
class FakeWriter:
    appended: list[Link] = attrs.field(factory=list)

    def append(self, spark: Any, landing: Landing, *_: Any) -> None:
        self.appended.append(landing.link)


class Unwanted(Exception):
    pass


def test_landing_that_nobody_wants_any_more_is_not_appended(tmp_path: Path) -> None:
    """Its partition may be given up while Delta's history is searched, which takes a while."""
    history = History()
    history.landed(1)
    table, writer = DeltaTable(tmp_path, staging=tmp_path, single_driver=True), FakeWriter()
    table._writer = writer  # type: ignore[assignment]
    spark: Any = Spark(history.commits)
    is_wanted, told = True, list[tuple[Phase, int]]()

    def checkpoint(phase: Phase, landings: Sequence[Landing]) -> None:
        told.append((phase, landings[0].link.number))
        if not is_wanted:
            raise Unwanted

    land = [Landing(link=link(2), staged=None)]
    table.land(spark, land, Shaping(), checkpoint)
    assert [one.number for one in writer.appended] == [2]
    assert told == [(Phase.READY, 2)]
    is_wanted = False
    with pytest.raises(Unwanted):
        table.land(spark, land, Shaping(), checkpoint)
    assert len(writer.appended) == 1
