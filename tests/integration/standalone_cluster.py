"""Spark's standalone cluster: a master and workers as processes, each with its own /tmp, as a machine has.

with StandaloneCluster(directory) as cluster: SparkOptions(master=cluster.url)
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import attrs
import pyspark

from tests.integration.class_data import quick
from tests.integration.connect_server import KILLED_WITH_TESTS
from tests.integration.real_kafka.node import HOST, free_ports
from tests.integration.spark_service import with_small_disks

_START_SECONDS = 60.0
_POLL_SECONDS = 0.1
_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


class StandaloneError(Exception):
    """A process of the cluster did not start. The text ends with its log."""


@attrs.define(kw_only=True)
class Daemon:
    """The master or a worker. Its executors end with it."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    address: tuple[str, int]
    log: Path
    _process: subprocess.Popen[bytes] | None = attrs.field(default=None, init=False)

    def start(self) -> None:
        """Start the process, and wait until it accepts connections. Raises StandaloneError."""
        assert self._process is None, "it runs"
        command = [*with_small_disks(Path("/tmp"), options=",size=1g"), "bash", "-c", KILLED_WITH_TESTS, *self.command]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **self.environment},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            try:
                socket.create_connection(self.address, timeout=1.0).close()
            except OSError:
                time.sleep(_POLL_SECONDS)
            else:
                return
        self.kill()
        raise StandaloneError(f"{self.name} has not started:\n{self.log.read_text(errors='replace')}")

    def kill(self) -> None:
        """Kill the process and its executors, as a machine that fails ends them."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            with self._process:
                self._process = None


class StandaloneCluster:
    """A master that runs, and workers of one core each, inside a block.

    A restarted master knows the applications and workers of the one before.

    Args:
        directory: For logs and for the master's state. Not below /tmp, which no process of the cluster sees.
        workers: Their number.
    """

    def __init__(self, directory: Path, workers: int = 2) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        port, *ports = free_ports(1 + workers)
        self.url = f"spark://{HOST}:{port}"
        options = " ".join(quick("spark"))
        environment = {"SPARK_DAEMON_JAVA_OPTS": options, "PYSPARK_PYTHON": sys.executable}
        recovery = f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={directory}"
        self.master = Daemon(
            name="the master",
            command=_command("master.Master", "--host", HOST, "--port", str(port), "--webui-port", "0"),
            environment={**environment, "SPARK_LOCAL_IP": HOST, "SPARK_MASTER_OPTS": recovery},
            address=(HOST, port),
            log=directory / "master.log",
        )
        worker = ("--webui-port", "0", "--cores", "1", "--memory", "1g", "--work-dir", "/tmp/work")
        # An executor reads the shuffle files of another one with its own address from the disk.
        hosts = [f"127.0.0.{number}" for number in range(2, workers + 2)]
        self.workers = [
            Daemon(
                name=f"worker {number}",
                command=_command("worker.Worker", *worker, "--host", host, "--port", str(own), self.url),
                environment={**environment, "SPARK_LOCAL_IP": host},
                address=(host, own),
                log=directory / f"worker-{number}.log",
            )
            for number, (host, own) in enumerate(zip(hosts, ports, strict=True))
        ]

    def __enter__(self) -> Self:
        try:
            for daemon in (self.master, *self.workers):
                daemon.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in (*self.workers, self.master):
            daemon.kill()


def _command(name: str, *arguments: str) -> Sequence[str]:
    return [str(_SPARK_CLASS), f"org.apache.spark.deploy.{name}", *arguments]
