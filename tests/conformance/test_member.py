"""The sink of the suite's members behaves like `SparkSink`, although it also reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sarameya import TopicPartition
from tests.conformance.member import ReportingSink
from tests.handlers.kit import FakeSession, batch, claim_of
from tests.handlers.spark.kit import FakeEngine, FakeTable, consume_in, count_fakes

ORDERS = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def _counts(monkeypatch: pytest.MonkeyPatch) -> None:
    count_fakes(monkeypatch)


@pytest.mark.parametrize("lost", [False, True], ids=["revoked", "lost"])
async def test_table_is_notified_of_revoked_chains_and_not_of_lost_ones(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], lost: bool
) -> None:
    table, session = FakeTable(tmp_path), FakeSession()
    session.generation = 1
    async with ReportingSink(table, spark=FakeEngine()) as sink:
        await consume_in(sink, session, claim_of([batch(0, 10)]))
        if lost:
            await sink.partitions_lost(session, [ORDERS])
        await sink.partitions_revoked(session, [ORDERS])
    heads = [chain[-1] for chain in table.chains.values()]
    assert table.resting == ([] if lost else heads)
    reports = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [report["lost"] for report in reports if "lost" in report] == ([["orders-0"]] if lost else [])
    assert [report["revoked"] for report in reports if "revoked" in report] == [["orders-0"]]
