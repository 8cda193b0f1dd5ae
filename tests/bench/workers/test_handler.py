"""Handler of the workers' benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from bench.workers.handler import GatedReader, WorkerLine
from sarameya import Config, ConsumerGroup
from sarameya.testing import memory_cluster, run_inline


async def test_partitions_are_not_read_until_the_gate_opens(
    autojump_clock: MockClock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = tmp_path / "gate"
    async with memory_cluster({"t": 2}) as cluster:
        for partition, count in enumerate((3, 2)):
            for _ in range(count):
                cluster.produce("t", partition, b"value")
        config = Config(offset_initial="oldest")
        servers, transport = cluster.bootstrap_servers, cluster.transport
        async with (
            ConsumerGroup(servers, "g", config, transport=transport, run_sync=run_inline) as group,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(group.consume, ["t"], GatedReader(str(gate), [3, 2]))
            await trio.sleep(30)
            before = capsys.readouterr().out.encode().splitlines()
            gate.touch()
            await trio.sleep(5)
            after = capsys.readouterr().out.encode().splitlines()
            group.close_nowait()

    assert [line.partitions for line in map(WorkerLine.of_json, before)] == [(0, 1)]
    assert sorted((line.partitions, line.messages) for line in map(WorkerLine.of_json, after)) == [((0,), 3), ((1,), 2)]
