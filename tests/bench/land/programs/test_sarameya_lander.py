"""Sink of Sarameya's landing program. It stops at the given ends of the partitions, and then closes the group."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from bench.land.programs.sarameya_lander import BoundedSink, UpTo
from bench.land.programs.stages import StageClock, TimedEngine, timed
from sarameya import Config, ConsumerGroup
from sarameya.testing import memory_cluster, run_inline
from tests.handlers.kit import FakeClaim, batch
from tests.handlers.spark.kit import FakeEngine, FakeTable, count_fakes


@pytest.fixture(autouse=True)
def _counts(monkeypatch: pytest.MonkeyPatch) -> None:
    count_fakes(monkeypatch)


async def test_group_closes_once_all_partitions_are_committed(autojump_clock: MockClock, tmp_path: Path) -> None:
    clock = StageClock()
    table = timed(FakeTable, clock)(tmp_path)
    ends = (5, 0, 2)
    async with memory_cluster({"t": len(ends)}) as cluster:
        for partition, end in enumerate(ends):
            for _ in range(end):
                cluster.produce("t", partition, b"value")
        config = Config(offset_initial="oldest")
        servers, transport = cluster.bootstrap_servers, cluster.transport
        async with (
            ConsumerGroup(servers, "g", config, transport=transport, run_sync=run_inline) as group,
            BoundedSink(table, ends, group, spark=TimedEngine(FakeEngine(1.0), clock)) as sink,
        ):
            with trio.fail_after(20):  # before the age limit flushes a batch
                await group.consume(["t"], sink)
        committed = {(at.partition, offset.offset) for at, offset in cluster.committed("g").items()}

    landed = {
        (link.key.partition, link.from_offset, link.to_offset) for links in table.chains.values() for link in links
    }
    assert landed == {(0, 0, 5), (2, 0, 2)}
    assert {(0, 5), (2, 2)} <= committed
    assert clock.flushes == len(table.jobs)
    assert all(seconds > 0 for seconds in clock.stages().values())


async def test_bounded_claim_continues_after_a_cancelled_read(autojump_clock: MockClock) -> None:
    claim = FakeClaim()
    batches = UpTo(cast(Any, claim), 8).batches()
    with trio.move_on_after(1) as waited:
        await anext(batches)
    claim.send(batch(0, 4), batch(4, 4), batch(8, 4))

    assert waited.cancelled_caught
    assert [each.next_offset async for each in batches] == [4, 8]
