"""Ctrl-C on a terminal, once and twice, at any point of a service that lands through Spark.

The service ends in time, with the exit code of docs/operations.md and without a traceback. It leaves no process and no
temporary file behind.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from sarameya.embedded import CoordinatorConfig, EmbeddedCluster
from sarameya.protocol.versions import Api
from tests.integration.processes import OnTerminal, marked, on_terminal
from tests.integration.test_landing_signals import SLOW
from tests.integration.test_run_command import SARAMEYA, committed

pytestmark = pytest.mark.integration

COUNT = 10
DEADLINE = 100.0
"""Longest time in seconds until the service reaches the point."""
PATIENCE = 15.0
"""Longest time in seconds for the end, of which Spark's JVM gets ten."""
EXPECTED = re.compile(r"[0-9: .-]{23} (INFO|WARNING) |importing$|landing$|$")
SLOW_TO_IMPORT = """
import time
print("importing", flush=True)
time.sleep(60)
"""
JAVA = """#!/bin/sh
if [ "$1" = -version ]; then
    touch {requested}
    while [ -e {gate} ] && kill -0 $PPID; do sleep 0.05; done
fi
exec {java} "$@"
"""
"""A Java that returns its version only once the gate is removed, or its parent has ended."""
FOREVER = 600.0
"""Delay in seconds of a response that never arrives."""


@attrs.frozen
class Stage:
    """A running service, its directory and its cluster."""

    directory: Path
    cluster: EmbeddedCluster
    running: OnTerminal
    mark: str


def imports(stage: Stage) -> bool:
    """Return whether the app's transform is being imported. No signal handler is installed yet."""
    return "importing\r\n" in stage.running.shown


def checks_java(stage: Stage) -> bool:
    """Return whether the version of Java was requested. The reply waits for the gate."""
    return (stage.directory / "version-requested").exists()


def starts_the_jvm(stage: Stage) -> bool:
    return any("pyspark-shell" in command for command in marked(stage.mark))


def joins(stage: Stage) -> bool:
    """Return whether the coordinator knows the member. It waits for other members before it responds."""
    return len(stage.cluster.describe_group("g").members) == 1


def consumes(stage: Stage) -> bool:
    """Return whether both partitions have landed. The service waits for more records."""
    return stage.running.shown.count("rows (offsets") == 2


def lands(stage: Stage) -> bool:
    """Return whether the transform is running. It ends when the gate is removed."""
    return "landing\r\n" in stage.running.shown


@asynccontextmanager
async def started(
    directory: Path, monkeypatch: pytest.MonkeyPatch, *, transform: str, delays_rebalance: bool
) -> AsyncIterator[Stage]:
    """Run a service on a terminal, with records to land. It must leave no process and no temporary file."""
    mark, temporary, app = uuid.uuid4().hex, directory / "tmp", directory / "app.toml"
    temporary.mkdir()
    java = directory / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    requested, gate = directory / "version-requested", directory / "java-gate"
    java.write_text(JAVA.format(requested=requested, gate=gate, java=shutil.which("java")))
    java.chmod(0o755)
    (directory / "slow.py").write_text(transform)
    monkeypatch.setenv("JAVA_HOME", str(java.parents[1]))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("MARK_OF_THIS_TEST", mark)
    groups = CoordinatorConfig(initial_rebalance_delay=60.0 if delays_rebalance else 0.0)
    async with EmbeddedCluster(topics={"orders": 2}, groups=groups) as cluster:
        for number in range(COUNT):
            cluster.produce("orders", number % 2, b"value")
        app.write_text(
            f"""
            bootstrap_servers = {json.dumps(cluster.bootstrap_servers)}
            group = "g"
            topics = ["orders"]
            [config]
            offset_initial = "oldest"
            claim_grace = 60.0
            close_timeout = 60.0
            rebalance_timeout = 90.0
            [handler]
            name = "spark"
            [handler.options]
            table = "parquet:./landed"
            max_age = 0.1
            transform = "slow:slowly"
            [handler.options.spark]
            master = "local[2]"
            [handler.options.spark.conf]
            "spark.driver.extraJavaOptions" = "-Djava.io.tmpdir={temporary}"
            """
        )
        async with on_terminal(directory, SARAMEYA, "run", str(app)) as running:
            yield Stage(directory, cluster, running, mark)
            with trio.fail_after(PATIENCE):
                while marked(mark) or os.listdir(temporary):
                    await trio.sleep(0.05)


POINTS = [imports, checks_java, starts_the_jvm, joins, consumes, lands]
GATES = {checks_java: "java-gate", lands: "gate"}
"""Files that hold the service at these points while they exist."""


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.exhaustive)], ids=["once", "twice"])
@pytest.mark.parametrize("point", POINTS)
async def test_ctrl_c_at_any_point_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: Callable[[Stage], bool], times: int
) -> None:
    gate = tmp_path / GATES.get(point, "gate")
    if point in GATES:
        gate.touch()
    transform = SLOW_TO_IMPORT if point is imports else SLOW
    async with started(tmp_path, monkeypatch, transform=transform, delays_rebalance=point is joins) as stage:
        running = stage.running
        with trio.fail_after(DEADLINE):
            await until(lambda: point(stage) or running.process.poll() is not None)
        assert running.process.returncode is None, running.shown
        if times == 2:
            stage.cluster.delay_next(Api.LEAVE_GROUP, FOREVER, half="request")
        with trio.fail_after(PATIENCE):
            await running.ctrl_c()
            if point is not imports:
                await until(lambda: "SIGINT: stopping" in running.shown)
            if times == 2:
                await running.ctrl_c()
            else:
                gate.unlink(missing_ok=True)
            code = await running.ended()
        at_once = "SIGINT: exiting at once" in running.shown
        if point is imports:
            assert code == -signal.SIGINT  # like any program without a signal handler; a shell shows 130
        else:
            # A second Ctrl-C after the signal handler is removed ends the program, which has nothing left to do.
            too_late = [-signal.SIGINT] if times == 2 and not at_once else []
            assert code in ([130] if at_once else [0, *too_late]), running.shown
            # The second Ctrl-C ends the service where something delays its end: a gate, or a leave without a response.
            # Nothing can delay the end of a killed JVM, so during its start the second may come too late.
            # test_signals_during_start.py has a case in which it cannot.
            if times == 1 or point is not starts_the_jvm:
                assert at_once is (times == 2), running.shown
        if point is lands:
            assert committed(stage.cluster) == (COUNT if times == 1 else 0), running.shown
        if point is consumes:
            assert times == 2 or committed(stage.cluster) == COUNT
        if point in (joins, consumes, lands) and times == 1:
            assert running.shown.index("group left: ") < running.shown.index("Spark is being stopped")
    shown = running.shown.replace("^C", "").splitlines()
    assert [line for line in shown if not EXPECTED.match(line)] == []


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await trio.sleep(0.002)
