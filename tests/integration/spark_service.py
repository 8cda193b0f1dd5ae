"""`sarameya run` with a Spark sink as a real process, for tests in which its Spark, disk or server fails."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import attrs
import pyarrow.parquet as pq
import pytest
import trio

from bench.land.landed import files
from sarameya.embedded import EmbeddedCluster
from tests.integration.real_kafka.node import free_ports
from tests.integration.test_run_command import SARAMEYA, Running

DEADLINE = 300.0
ROOT = Path(__file__).parents[2]


@attrs.frozen(kw_only=True)
class Service:
    """A running service, its cluster and its table."""

    running: Running
    cluster: EmbeddedCluster
    table: Path
    mark: str
    """Text in the environment of the service's processes, with which `processes` finds them."""
    port: int

    @property
    def log(self) -> str:
        """The whole log of the service so far."""
        return self.running.stderr

    @property
    def exit_code(self) -> int | None:
        return self.running.process.returncode

    def jvms(self) -> list[int]:
        """Return the process ids of its JVMs in which Spark starts or runs."""
        commands = {pid: _read(pid, "cmdline") for pid in self.processes("java")}
        # Without the launcher, which only prints a command: SparkSubmit is among its arguments too.
        return [pid for pid, line in commands.items() if b"SparkSubmit" in line and b"launcher.Main" not in line]

    def processes(self, name: str = "") -> list[int]:
        """Return the ids of its processes, or of those named `name`."""
        everything = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
        marked = [pid for pid in everything if self.mark.encode() in _read(pid, "environ")]
        return [pid for pid in marked if not name or _read(pid, "comm").strip() == name.encode()]

    def workers(self) -> list[int]:
        """Return the process ids of the workers that run now."""
        return [pid for pid in self.processes() if b"--worker\0" in _read(pid, "cmdline")]

    async def disk(self, place: Path) -> Path:
        """Wait until the service has its own small disk at `place`; return its path for the test's process."""
        seen = Path(f"/proc/{self.running.process.pid}/root{place}")
        await self.until(lambda: os.path.ismount(seen))
        return seen

    async def until(self, condition: Callable[[], object], seconds: float = DEADLINE) -> None:
        """Wait for `condition`; fail if the service ends before."""
        try:
            with trio.fail_after(seconds):
                while not condition():
                    assert self.exit_code is None, f"the service has ended with exit code {self.exit_code}:\n{self.log}"
                    await trio.sleep(0.05)
        except trio.TooSlowError:
            raise AssertionError(self.log) from None

    async def produce_and_land(self, count: int) -> None:
        """Produce `count` more records, wait until the offsets of all records are committed, and check the table.

        Every record must be in the table exactly once.
        """
        for number in range(count):
            self.cluster.produce("orders", number % 2, b"value-%d" % number)
        total = sum(end for end in ends(self.cluster).values())
        await self.until(lambda: sum(o.offset for o in self.cluster.committed("g").values()) >= total)
        landed: Counter[tuple[int, int]] = Counter()
        for file in files("parquet", self.table):
            rows = pq.read_table(file, columns=["partition", "offset"])
            landed.update(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))
        assert landed == {(p, offset): 1 for p, end in ends(self.cluster).items() for offset in range(end)}

    async def not_ready(self) -> str:
        """Return the text of `/readyz`: empty if the service is ready, or does not respond yet."""
        return await trio.to_thread.run_sync(_not_ready, self.port)

    async def until_not_ready(self, part: str) -> None:
        """Wait until `/readyz` names a reason that has `part` in it."""
        with trio.fail_after(DEADLINE):
            while part not in await self.not_ready():
                assert self.exit_code is None, self.log
                await trio.sleep(0.1)


def ends(cluster: EmbeddedCluster) -> dict[int, int]:
    return {number: cluster.log("orders", number).high_watermark for number in range(2)}


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # the process has just ended
        return b""


def _not_ready(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10):
            return ""
    except urllib.error.HTTPError as answer:
        with suppress(OSError, http.client.HTTPException):  # the service may end meanwhile
            return answer.read().decode()
        return ""
    except OSError:
        return ""


@asynccontextmanager
async def spark_service(
    directory: Path,
    *,
    table: Path | None = None,
    url: str = "",
    spark: str = 'master = "local[2]"',
    conf: str = "",
    workers: int = 1,
    on_failure: str = "restart",
    before: Sequence[str] = (),
    environment: dict[str, str] | None = None,
    options: str = "",
) -> AsyncIterator[Service]:
    """Run a service that lands in `table`; kill it, with its workers, at the end of the block.

    Args:
        directory: the directory of its app file and its output.
        table: the Parquet table.
        url: the table's URL for the service, if it is in an object store; `table` is then the store's directory.
        spark: lines of TOML for `[handler.options.spark]`.
        conf: Spark's `conf`, as entries of a TOML inline table.
        workers: the number of worker processes.
        on_failure: the option of the same name.
        before: the start of the command line, such as `with_small_disks` returns.
        environment: further environment variables.
        options: further lines of TOML for `[handler.options]`.
    """
    table, mark, (port,) = table or directory / "landed", uuid.uuid4().hex, free_ports(1)
    app = directory / "app.toml"
    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        app.write_text(
            f"""
            bootstrap_servers = {json.dumps(cluster.bootstrap_servers)}
            group = "g"
            topics = ["orders"]
            [handler]
            name = "spark"
            [handler.options]
            table = "parquet:{url or table}"
            max_age = 0.5
            transform_sql = "select * from batch"
            {options}
            [handler.options.spark]
            {spark}
            conf = {{ {conf} }}
            [config]
            offset_initial = "oldest"
            session_timeout = 10.0
            [service]
            workers = {workers}
            http = "127.0.0.1:{port}"
            log_format = "text"
            on_failure = "{on_failure}"
            restart_backoff = 0.5
            restart_backoff_max = 2.0
            """
        )
        outputs = directory / "stdout", directory / "stderr"
        with outputs[0].open("wb") as stdout, outputs[1].open("wb") as stderr:
            process = await trio.lowlevel.open_process(
                [*before, SARAMEYA, "run", str(app)],
                cwd=directory,
                env={**os.environ, "MARK_OF_THIS_TEST": mark, **(environment or {})},
                stdout=stdout,
                stderr=stderr,
            )
        service = Service(running=Running(process, *outputs), cluster=cluster, table=table, mark=mark, port=port)
        try:
            yield service
        finally:
            with trio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.wait()
                with trio.move_on_after(30):
                    while service.processes():
                        await trio.sleep(0.05)


@contextmanager
def outside_tmp() -> Iterator[Path]:
    """Create a directory outside of /tmp, so that a mount at /tmp does not hide it."""
    (ROOT / "build").mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(dir=ROOT / "build"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


def with_small_disks(*places: Path, options: str = "", go: Path | None = None, cwd: Path | None = None) -> list[str]:
    """Return a command prefix that gives the command after it its own small disks.

    Args:
        places: the mount points.
        options: further mount options, each after a comma.
        go: the command starts once this file exists.
        cwd: the directory in which the command starts.
    """
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs a mount namespace, for small disks")
    steps = [f"mount -t tmpfs -o size=64m{options} tmpfs {place}" for place in places]
    steps += [f"while [ ! -e {go} ]; do sleep 0.1; done"] if go else []
    steps += [f"cd {cwd}"] if cwd else []
    return [*unshare, "sh", "-c", " && ".join([*steps, 'exec "$0" "$@"'])]


def fill(directory: Path, left: int = 0) -> Path:
    """Fill the disk of `directory` except for `left` bytes; return the file whose removal frees it again."""
    ballast = directory / "ballast"
    with ballast.open("wb") as file:
        free = os.statvfs(directory)
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - left)
    return ballast


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
