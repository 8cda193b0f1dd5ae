"""SIGTERM during a landing: the service waits for it; a second signal ends everything at once, and nothing is lost."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import trio

from bench.land.landed import files
from sarameya.embedded import EmbeddedCluster
from tests.integration.processes import children, is_running
from tests.integration.test_run_command import Running, committed, sarameya

pytestmark = pytest.mark.integration

COUNT = 20
DEADLINE = 200.0

SLOW = """
import os, pathlib, time

def slowly(batch):
    "Lands at once, unless the gate file exists."
    print("landing", flush=True)
    while pathlib.Path("gate").exists():
        time.sleep(0.05)
    return batch
"""


@asynccontextmanager
async def landing(directory: Path, cluster: EmbeddedCluster) -> AsyncIterator[Running]:
    """Run a service, and wait until its first landing has begun."""
    (directory / "slow.py").write_text(SLOW)
    app = directory / "app.toml"
    app.write_text(
        f"""
        bootstrap_servers = {json.dumps(cluster.bootstrap_servers)}
        group = "g"
        topics = ["orders"]
        [config]
        offset_initial = "oldest"
        session_timeout = 6.0
        claim_grace = 60.0
        close_timeout = 90.0
        rebalance_timeout = 120.0
        [handler]
        name = "spark"
        [handler.options]
        table = "parquet:./landed"
        max_age = 0.5
        transform = "slow:slowly"
        spark = {{ master = "local[2]" }}
        """
    )
    async with sarameya(directory, "run", str(app), deadline=DEADLINE) as running:
        await running.until(lambda r: "landing" in r.stdout)
        yield running


def landed(directory: Path) -> Counter[tuple[int, int]]:
    """Return the number of rows of each record in the table."""
    found: Counter[tuple[int, int]] = Counter()
    for file in files("parquet", directory / "landed"):
        table = pq.read_table(file, columns=["partition", "offset"])
        found.update(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
    return found


EACH_ONCE = {(partition, offset): 1 for partition in range(2) for offset in range(COUNT // 2)}


@pytest.mark.parametrize("signum", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.exhaustive)])
async def test_only_the_first_signal_waits_for_the_flush(tmp_path: Path, signum: int) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        for number in range(COUNT):
            cluster.produce("orders", number % 2, b"value-%d" % number)

        async with landing(tmp_path, cluster) as running:
            [jvm] = children("java", running.process.pid)
            running.process.send_signal(signum)
            await running.until(lambda r: "stopping" in r.stderr)
            running.process.send_signal(signum)
            with trio.fail_after(5):
                assert await running.process.wait() == 128 + signum
            while is_running(jvm):
                await trio.sleep(0.05)
        assert (committed(cluster), landed(tmp_path)) == (0, {})

        async with landing(tmp_path, cluster) as running:
            running.process.send_signal(signum)
            await running.until(lambda r: "stopping" in r.stderr)
            gate.unlink()
            assert await running.process.wait() == 0, running.stderr
        assert (committed(cluster), landed(tmp_path)) == (COUNT, EACH_ONCE)
        assert cluster.describe_group("g").members == ()
