"""Signals while Spark starts: the first cancels the start, a second one also leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from sarameya.embedded import EmbeddedCluster
from tests.integration.processes import marked
from tests.integration.test_run_command import Running, sarameya

pytestmark = pytest.mark.integration

DEADLINE = 100.0
PATIENCE = 8.0
"""Seconds for the end: what is there of Spark by then is stopped."""


@asynccontextmanager
async def starting(directory: Path, sharing: str) -> AsyncIterator[Running]:
    """A service whose Spark is starting, of two workers where some `sharing` is named; at the end there must be no
    process of its, and no temporary file."""
    mark, temporary, app = uuid.uuid4().hex, directory / "tmp", directory / "app.toml"
    temporary.mkdir()
    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        app.write_text(
            f"""
            bootstrap_servers = {json.dumps(cluster.bootstrap_servers)}
            group = "g"
            topics = ["orders"]
            [handler]
            name = "spark"
            [handler.options]
            table = "parquet:./landed"
            [handler.options.spark]
            master = "local[2]"
            {sharing}
            [handler.options.spark.conf]
            "spark.driver.extraJavaOptions" = "-Djava.io.tmpdir={temporary}"
            """
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TMPDIR", str(temporary))
            patch.setenv("MARK_OF_THIS_TEST", mark)
            workers = ["--workers", "2"] if sharing else []
            async with sarameya(directory, "run", str(app), *workers, deadline=DEADLINE) as running:
                # Its answer's directory is there, and the JVM begins.
                await running.until(lambda r: any("pyspark-shell" in command for command in marked(mark)))
                yield running
                with trio.fail_after(PATIENCE):
                    while marked(mark):
                        await trio.sleep(0.05)
        assert cluster.describe_group("g").members == ()
    assert os.listdir(temporary) == []


@pytest.mark.parametrize("sharing", ["", "share = true", "share = false"])
@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT, signal.SIGTERM]], ids=["one", "two"])
async def test_signal_during_sparks_start_leaves_nothing(
    tmp_path: Path, sharing: str, signals: list[signal.Signals]
) -> None:
    async with starting(tmp_path, sharing) as running:
        for signum in signals:  # at once: the first one's end may be a quick one
            running.process.send_signal(signum)
        with trio.fail_after(PATIENCE):
            code = await running.process.wait()
        # Two that wait for the program together come to it in either order; the one that came second has the code.
        second = [number for number in signals if f"{number.name}: exiting at once" in running.stderr]
        assert len(second) == len(signals) - 1, running.stderr
        assert code == (128 + second[0] if second else 0), running.stderr
