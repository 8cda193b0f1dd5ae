"""`sarameya run --workers 2` with one Spark for both workers. Spark outlives a worker, but not the supervisor."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pyarrow.parquet as pq
import pytest
import trio

from bench.land.landed import files
from sarameya.embedded import EmbeddedCluster
from tests.integration.lakes import lake_properties
from tests.integration.processes import children, is_running
from tests.integration.test_run_command import Running, sarameya

pytestmark = pytest.mark.integration

DEADLINE = 400.0


@attrs.frozen
class Service:
    """A supervisor with its workers and its Spark server, and the table that they land in."""

    supervisor: Running
    cluster: EmbeddedCluster
    files: Callable[[], list[Path]]
    """Returns the table's data files."""

    @property
    def workers(self) -> list[int]:
        """Return the ids of all started workers, dead ones included."""
        return [int(pid) for pid in re.findall(r"worker \d started \(pid (\d+)\)", self.supervisor.stderr)]

    @property
    def servers(self) -> list[int]:
        return children("java", self.supervisor.process.pid)

    @property
    def has_ended(self) -> bool:
        return self.supervisor.process.returncode is not None

    @property
    def committed(self) -> int:
        """Return the sum of the committed offsets of both partitions."""
        return sum(offset.offset for offset in self.cluster.committed("g").values())

    def produce(self, count: int) -> None:
        for number in range(count):
            self.cluster.produce("orders", number % 2, b"value-%d" % number)

    async def until_landed(self, count: int) -> None:
        """Wait until so many records are committed, and check that each is in the table once."""
        await until(lambda: self.has_ended or self.committed >= count)
        assert not self.has_ended, self.supervisor.stderr
        landed: Counter[tuple[int, int]] = Counter()
        for file in self.files():
            table = pq.read_table(file, columns=["partition", "offset"])
            landed.update(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
        assert landed == {(partition, offset): 1 for partition in range(2) for offset in range(count // 2)}


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(DEADLINE):
        while not condition():
            await trio.sleep(0.1)


@asynccontextmanager
async def service(directory: Path, kind: str, conf: Mapping[str, str] | None = None) -> AsyncIterator[Service]:
    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        app = directory / "app.toml"
        app.write_text(
            f"""
            bootstrap_servers = {json.dumps(cluster.bootstrap_servers)}
            group = "g"
            topics = ["orders"]
            [handler]
            name = "spark"
            [handler.options]
            table = "{kind}:./landed"
            max_age = 0.5
            transform_sql = "select * from batch"
            [handler.options.spark]
            master = "local[2]"
            {"share = true" if kind == "parquet" else ""}
            conf = {{ {", ".join(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in (conf or {}).items())} }}
            [config]
            offset_initial = "oldest"
            session_timeout = 10.0
            [service]
            workers = 2
            on_failure = "restart"
            """
        )
        async with sarameya(directory, "run", str(app), deadline=2 * DEADLINE) as supervisor:
            try:
                yield Service(supervisor, cluster, lambda: files(kind, directory / "landed"))
            except trio.TooSlowError:
                raise AssertionError(supervisor.stderr) from None


async def test_workers_share_a_server_that_survives_deaths(
    tmp_path: Path,
) -> None:
    async with service(tmp_path, "parquet") as running:
        running.produce(20)
        await running.until_landed(20)
        (server,) = running.servers
        assert len(running.workers) == 2
        assert [children("java", worker) for worker in running.workers] == [[], []]

        os.kill(running.workers[0], signal.SIGKILL)
        running.produce(20)
        await running.until_landed(40)
        await until(lambda: len(running.workers) == 3)
        assert running.servers == [server]

        os.kill(server, signal.SIGKILL)
        running.produce(20)
        await running.until_landed(60)
        (other,) = running.servers
        assert other != server

        running.supervisor.process.send_signal(signal.SIGTERM)
        with trio.fail_after(DEADLINE):
            assert await running.supervisor.process.wait() == 0
        assert not any(map(is_running, [*running.workers, other]))


async def test_workers_share_a_delta_table_through_one_driver(
    tmp_path: Path,
) -> None:
    """The sharing is automatic: on a plain file system two drivers would be refused."""
    async with service(tmp_path, "delta", lake_properties(tmp_path)) as running:
        for count in (20, 40):
            running.produce(20)
            await running.until_landed(count)
        pids = [*running.workers, *running.servers]
        assert len(pids) == 3
        running.supervisor.process.kill()
        await until(lambda: not any(map(is_running, pids)))


@pytest.mark.exhaustive
async def test_first_read_of_a_new_shared_delta_table_logs_no_error(tmp_path: Path) -> None:
    async with service(tmp_path, "delta", lake_properties(tmp_path)) as running:
        running.produce(20)
        await running.until_landed(20)
        running.supervisor.process.send_signal(signal.SIGTERM)
        with trio.fail_after(DEADLINE):
            assert await running.supervisor.process.wait() == 0
        lines = running.supervisor.stderr.splitlines()
        noise = [line for line in lines if "ERROR" in line or "Exception" in line or "\\tat " in line]
        assert not noise, "\n".join(noise)
