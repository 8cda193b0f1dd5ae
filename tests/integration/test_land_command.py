"""`sarameya land` as a process, with a Spark of its own, from a broker over TCP; `sarameya verify` proves the table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset
import pytest
import trio

from sarameya.embedded import EmbeddedCluster
from tests.integration.outcome import Outcome

pytestmark = [pytest.mark.integration, pytest.mark.cold]

DEADLINE = 180.0


async def sarameya(*argv: str) -> Outcome:
    with trio.fail_after(DEADLINE):
        done = await trio.run_process(
            [sys.executable, "-m", "sarameya.service", *argv],
            stdin=subprocess.DEVNULL,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    return Outcome.of(done)


def landed(table: Path) -> list[tuple[str, int, int]]:
    rows = pyarrow.dataset.dataset(table, format="parquet").to_table(columns=["topic", "partition", "offset"])
    return sorted((row["topic"], row["partition"], row["offset"]) for row in rows.to_pylist())


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.exhaustive), 2])
async def test_existing_records_land_once_and_later_ones_next_time(tmp_path: Path, workers: int) -> None:
    table = tmp_path / "orders"
    async with EmbeddedCluster({"orders": 2, "payments": 1}) as cluster:
        servers = ",".join(cluster.bootstrap_servers)
        place = ["--bootstrap", servers, "--group", "g", "--workers", str(workers), "--spark", "local[1]"]
        land = ["land", *place, "--topics-pattern", "orders|payments", "--to", f"parquet:{table}", "--until-end"]
        expected = []
        for count in 400, 300:
            expected += [("orders", n % 2, cluster.produce("orders", n % 2, b"v%d" % n)) for n in range(count)]
            expected.append(("payments", 0, cluster.produce("payments", 0, b"p")))
            outcome = await sarameya(*land, "--set", "max_age=1")
            assert outcome.code == 0, outcome.err
            assert landed(table) == sorted(expected)
            assert f"landed: {count + 1:,} of {count + 1:,} (100%)" in outcome.err
            assert "Traceback" not in outcome.err

        verified = await sarameya("verify", str(table), "--bootstrap", servers, "--json", "--quiet")
        assert verified.code == 0, verified.out
        assert json.loads(verified.out)["rows"] == len(expected)
