"""`sarameya run` with read-only file systems, except for what docs/operations.md says must be writable."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from sarameya.embedded import EmbeddedCluster
from tests.integration.test_landing_signals import landed
from tests.integration.test_run_command import DEADLINE, SARAMEYA, Running, committed

pytestmark = pytest.mark.integration

# The arguments before `--` stay writable; every other mount becomes read-only, in a new namespace.
READ_ONLY = """
set -e
while [ "$1" != -- ]; do mount --bind "$1" "$1"; writable="$writable $1 "; shift; done
shift
while read -r _ place kind _; do
    case $kind in proc|sysfs|cgroup*|devpts|devtmpfs) continue;; esac
    case $writable in *" $place "*) continue;; esac
    mount -o remount,bind,ro "$place"
done < /proc/self/mounts
if touch "$HOME/probe" 2> /dev/null; then echo "not read-only" >&2; exit 70; fi
exec "$@"
"""


@asynccontextmanager
async def read_only(
    directory: Path, *command: str, writable: Iterable[Path] = (), deadline: float = DEADLINE
) -> AsyncIterator[Running]:
    """Run `command` where only `writable` can be written. Its output goes into `directory` nevertheless."""
    files = directory / "stdout", directory / "stderr"
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    with files[0].open("wb") as stdout, files[1].open("wb") as stderr:
        process = await trio.lowlevel.open_process(
            ["unshare", *user, "--mount", "--", "sh", "-c", READ_ONLY, "sh", *map(str, writable), "--", *command],
            cwd=directory,
            stdout=stdout,
            stderr=stderr,
        )
    try:
        with trio.fail_after(deadline):
            yield Running(process, *files)
    finally:
        with trio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.wait()


def app_file(directory: Path, cluster: EmbeddedCluster, handler: str) -> str:
    path = directory / "app.toml"
    path.write_text(
        f"""
        bootstrap_servers = {json.dumps(cluster.bootstrap_servers)}
        group = "g"
        topics = ["orders"]
        [config]
        offset_initial = "oldest"
        [handler]
        {handler}
        """
    )
    return str(path)


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_service_without_a_sink_writes_nowhere(tmp_path: Path, workers: str) -> None:
    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        cluster.produce("orders", 0, b"value")
        app = app_file(tmp_path, cluster, 'name = "print"')
        async with read_only(tmp_path, SARAMEYA, "run", app, "--workers", workers) as running:
            await running.until(lambda r: any("value" in line for line in r.stdout))
            running.process.terminate()
            assert await running.process.wait() == 0
        assert committed(cluster) == 1
    assert {line["level"] for line in running.log} == {"INFO"}


async def test_sink_writes_only_to_its_table_and_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, temporary = tmp_path / "landed", tmp_path / "temporary"
    table.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        for number in range(20):
            cluster.produce("orders", number % 2, b"value")
        sink = f"""name = "spark"
        [handler.options]
        table = "parquet:{table}"
        max_age = 0.5
        transform_sql = "select * from batch"
        [handler.options.spark.conf]
        "spark.local.dir" = "{temporary}"
        "spark.driver.extraJavaOptions" = "-Djava.io.tmpdir={temporary}"
        """
        app = app_file(tmp_path, cluster, sink)
        command = [SARAMEYA, "run", app]
        async with read_only(tmp_path, *command, writable=[table, temporary], deadline=200) as running:
            await running.until(lambda r: committed(cluster) == 20)
            running.process.terminate()
            assert await running.process.wait() == 0
    assert landed(tmp_path) == {(partition, offset): 1 for partition in range(2) for offset in range(10)}
    assert list(temporary.iterdir()) == []
    assert {line["level"] for line in running.log} == {"INFO"}, running.stderr
