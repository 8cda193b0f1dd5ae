"""Tables built by the benchmark are valid tables for the sink."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.growth import delta, parquet
from bench.growth.chains import BUSY, KEYS, NEW, QUIET, history
from bench.growth.landing import land
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.delta.history.chains import LAST, search
from sarameya_handlers.spark.delta.history.log import DeltaLog
from sarameya_handlers.spark.parquet.table import ParquetTable

NO_SPARK: Any = None


def test_parquet_chain_has_its_length_and_accepts_a_link(tmp_path: Path) -> None:
    parquet.build(tmp_path, 40)
    table = ParquetTable(tmp_path)
    table.open(NO_SPARK)
    heads = table.heads(NO_SPARK, KEYS)
    assert heads.keys() == {*BUSY, QUIET}
    assert (heads[BUSY[0]].number, heads[BUSY[1]].number) == (40, 1)
    assert land(None, table, BUSY[0], heads[BUSY[0]]).number == 41


class FakeSpark:
    """Creates the table, as Spark would."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.read = self

    def parquet(self, path: str) -> Any:
        return type("Frame", (), {"schema": []})

    def sql(self, text: str) -> None:
        assert text.startswith(f"CREATE TABLE delta.`{self._root}`")
        (self._root / "_delta_log").mkdir(parents=True)
        protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
        made = {"id": "x", "format": {"provider": "parquet", "options": {}}, "schemaString": "{}"}
        lines = [protocol, {"metaData": {**made, "partitionColumns": [], "configuration": {}, "createdTime": 1}}]
        (self._root / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.parametrize("length", [40, 1200])
@pytest.mark.parametrize("log", delta.Log)
def test_delta_log_has_chains_and_their_transactions(tmp_path: Path, log: delta.Log, length: int) -> None:
    root = tmp_path / "table"
    spark: Any = FakeSpark(root)
    delta.build(spark, root, length, log)
    read = DeltaLog("t")
    read.read_from(LocalStore(root))
    found = search(read.commits(NO_SPARK), dict.fromkeys(KEYS, LAST))
    assert {key: chain.links[-1].number for key, chain in found.items() if chain.links} == {
        one.key: one.number for one in history(length)
    }
    assert found[NEW].is_whole == (log is not delta.Log.CLEANED or length == 40)
    if log is not delta.Log.BARE:
        assert len(read.transactions(NO_SPARK, "nowhere")) == len(BUSY) + 1
