"""Signals while Spark starts: the first one cancels the start, and a second one also leaves nothing behind."""

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
"""The longest permitted time for the end of all processes, in seconds: a Spark that starts is stopped first."""


@asynccontextmanager
async def starting(directory: Path, sharing: str) -> AsyncIterator[Running]:
    """Run a service whose Spark is starting, with two workers if `sharing` is set.

    At the end there must be no process of the service, and no temporary file.
    """
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
                # The directory for the JVM's answer exists, and the JVM starts.
                await running.until(lambda r: any("pyspark-shell" in command for command in marked(mark)))
                yield running
                with trio.fail_after(PATIENCE):
                    while marked(mark):
                        await trio.sleep(0.05)
        assert cluster.describe_group("g").members == ()
    assert os.listdir(temporary) == []


@pytest.mark.parametrize("sharing", ["", "share = true", "share = false"])
@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT, signal.SIGTERM]], ids=["one", "two"])
async def test_signal_while_spark_starts_leaves_no_process_or_file(
    tmp_path: Path, sharing: str, signals: list[signal.Signals]
) -> None:
    async with starting(tmp_path, sharing) as running:
        for signum in signals:  # at once: the first signal may end the service quickly
            running.process.send_signal(signum)
        with trio.fail_after(PATIENCE):
            code = await running.process.wait()
        # Two pending signals arrive in either order; the one that arrives second defines the exit code.
        second = [number for number in signals if f"{number.name}: exiting at once" in running.stderr]
        assert len(second) == len(signals) - 1, running.stderr
        assert code == (128 + second[0] if second else 0), running.stderr
