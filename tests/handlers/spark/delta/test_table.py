"""A Delta table's landings, up to the writes of Spark. No Spark runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import attrs
import pytest

from sarameya import HandlerError
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.delta.commit_rules import CommitRules
from sarameya_handlers.spark.delta.history.checkpoints import commit_file
from sarameya_handlers.spark.delta.history.commits import CommitMark
from sarameya_handlers.spark.delta.row_files import record_columns
from sarameya_handlers.spark.delta.table import DeltaTable
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Landing, Phase
from tests.conformance.adoptions import AdoptedDelta
from tests.handlers.spark.delta.direct_commit_process import staged
from tests.handlers.spark.delta.kit import FakeHistorySpark, History, link

NO_SPARK: Any = None


class Spark(FakeHistorySpark):
    """A session that knows a table and its history."""

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


class Abandoned(Exception):
    pass


def test_abandoned_link_is_not_appended(tmp_path: Path) -> None:
    """The partition may be revoked during the search of Delta's history, which takes a while."""
    history = History()
    history.landed(1)
    table, writer = DeltaTable(tmp_path, staging=tmp_path, single_driver=True), FakeWriter()
    table._writer = writer  # type: ignore[assignment]
    spark: Any = Spark(history.commits)
    is_wanted, phases = True, list[tuple[Phase, int]]()

    def checkpoint(phase: Phase, landings: Sequence[Landing]) -> None:
        phases.append((phase, landings[0].link.number))
        if not is_wanted:
            raise Abandoned

    land = [Landing(link=link(2), staged=None)]
    table.land(spark, land, Shaping(), checkpoint)
    assert [one.number for one in writer.appended] == [2]
    assert phases == [(Phase.READY, 2)]
    is_wanted = False
    with pytest.raises(Abandoned):
        table.land(spark, land, Shaping(), checkpoint)
    assert len(writer.appended) == 1


class RecordingTable(AdoptedDelta):
    """A table that records the versions committed by Spark."""

    def __init__(self, root: Path, rules: CommitRules) -> None:
        super().__init__(root)
        self._given_rules = rules
        self.by_spark: list[int] = []

    def _load_rules(self, spark: Any) -> CommitRules:
        return self._given_rules

    def _append(self, spark: Any, landing: Landing, shape: Any, ready: Any) -> None:
        known = self._search(spark, {landing.link.key: 1})[landing.link.key]
        mark = CommitMark(landing.link, known.seen, known.term)
        info = {"timestamp": 1, "operation": "WRITE", "userMetadata": mark.to_json()}
        version = known.seen + 1
        (self.staging.directory.parents[1] / commit_file(version)).write_text(
            json.dumps({"commitInfo": info}, separators=(",", ":"))
        )
        self.by_spark.append(version)


def test_spark_commits_only_the_checkpoint_of_a_flush(tmp_path: Path) -> None:
    """The commits after the checkpoint are direct again."""
    table = RecordingTable(tmp_path, CommitRules(columns=record_columns(), checkpoint_interval=5))
    table.open(NO_SPARK)
    keys = [ChainKey("sink", "orders", partition) for partition in range(7)]
    landings = [staged(tmp_path, attrs.evolve(link(1), key=key, attempt=uuid4().hex)) for key in keys]
    table.land(NO_SPARK, landings, Shaping(), lambda phase, landings: None)
    assert table.by_spark == [5]
    assert {key: head.number for key, head in table.heads(NO_SPARK, keys).items()} == dict.fromkeys(keys, 1)


def test_chain_missing_from_the_log_is_left_to_spark(tmp_path: Path) -> None:
    table = RecordingTable(tmp_path, CommitRules(columns=record_columns()))
    table.open(NO_SPARK)
    first, other = link(1), attrs.evolve(link(1), key=ChainKey("sink", "orders", 9), attempt=uuid4().hex)
    for one in (first, other):
        table.land(NO_SPARK, [staged(tmp_path, one)], Shaping(), lambda phase, landings: None)
    for version in (0, 1):
        (tmp_path / commit_file(version)).unlink()
    reopened = RecordingTable(tmp_path, CommitRules(columns=record_columns()))
    reopened._log.read_from(LocalStore(tmp_path))
    again = staged(tmp_path, attrs.evolve(first, attempt=uuid4().hex))
    reopened.land(NO_SPARK, [again], Shaping(), lambda phase, landings: None)
    assert reopened.by_spark == [3]


def test_leftovers_on_an_object_store_need_vacuum(tmp_path: Path) -> None:
    table = DeltaTable("s3a://lake/orders", staging=tmp_path, single_driver=True)
    spark: Any = Spark(History().commits)
    with pytest.raises(HandlerError, match=r"s3a://lake/orders cannot be listed from here; VACUUM removes them"):
        table.leftovers(spark)
