"""A real Spark Connect server in its own process, with the jars and properties that a test needs.

    with ConnectServer(tmp_path, lake_properties(tmp_path)) as server:
        SparkOptions(master=server.url)              # for a sink
        with server.session() as spark: ...          # for the test itself

The port stays the same after a restart, so that a test can kill and restart the server while clients use it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sarameya_handlers.spark.engines.connect import new_session
from tests.integration.class_data import quick_spark
from tests.integration.real_kafka.node import HOST, free_ports

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

_START_SECONDS = 90.0
_STOP_SECONDS = 15.0

# The shell becomes the server. A child process kills it when standard input ends, so it never outlives the tests.
KILLED_WITH_TESTS = 'exec 3<&0; (cat <&3 >/dev/null; kill -9 $$) & exec "$0" "$@" 3<&- </dev/null'


class ConnectServerError(Exception):
    """The server did not start. The text ends with the last lines of its log."""


class ConnectServer:
    """A Spark Connect server, which runs while the `with` block does.

    Args:
        directory: the directory of its files and its log.
        properties: Spark properties (see `lake_properties`); they override the defaults for a small server.
        master: Spark's master.
        token: the token that clients must send; None for no authentication.
        before: the start of the command line, such as `with_small_disks` returns.
    """

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        *,
        master: str = "local[2]",
        token: str | None = None,
        before: Sequence[str] = (),
    ) -> None:
        self._directory = directory
        self._token = token
        self._before = before
        self._port = free_ports(1)[0]
        self._properties = {
            "spark.master": master,
            "spark.ui.enabled": "false",
            "spark.sql.ui.explainMode": "simple",
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(self._port),
            **(properties or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        # "localhost", since Spark's client sends a token without TLS to no other host.
        return f"sc://localhost:{self._port}" + (f"/;token={self._token}" if self._token else "")

    @property
    def pid(self) -> int:
        """Id of the process, which must be running."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True if it was started, and neither stopped nor killed since."""
        return self._process is not None

    @contextmanager
    def session(self, conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
        """Open a new session with these settings, and release it at the end of the block."""
        session = new_session(self.url)
        try:
            for key, value in (conf or {}).items():
                session.conf.set(key, value)
            yield session
        finally:
            session.stop()

    def start(self) -> None:
        """Start the process and wait until it accepts connections.

        Raises:
            ConnectServerError: The server has ended, or does not listen in time.
        """
        assert self._process is None
        self._directory.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            # In a new session, so that Ctrl-C reaches only the tests, which then stop the server.
            self._process = subprocess.Popen(
                self._command(),
                cwd=self._directory,
                env=self._environment(),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait_until_listening()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop the process by SIGTERM, and after fifteen seconds by SIGKILL."""
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
            self.kill()

    def kill(self) -> None:
        """Kill the process, as a crash would end it."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)  # the watching child lives on after the server has ended
            with self._process:
                self._process = None

    def freeze(self) -> None:
        """Stop the process by SIGSTOP, with its connections open, until `thaw` or `kill`."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    @property
    def log_file(self) -> Path:
        return self._directory / "connect-server.log"

    def last_lines(self, count: int = 40) -> str:
        lines = self.log_file.read_text(errors="replace").splitlines() if self.log_file.exists() else []
        return "\n".join([*lines[-count:], f"(the whole log: {self.log_file})"])

    def _command(self) -> list[str]:
        import pyspark

        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        conf = [argument for key, value in self._properties.items() for argument in ("--conf", f"{key}={value}")]
        server = "org.apache.spark.sql.connect.service.SparkConnectServer"
        return [*self._before, "bash", "-c", KILLED_WITH_TESTS, str(submit), *conf, "--class", server, "spark-internal"]

    def _environment(self) -> dict[str, Any]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
        environment |= quick_spark()
        environment.setdefault("PYSPARK_PYTHON", sys.executable)  # for the server's Python workers
        return environment if self._token is None else {**environment, "SPARK_CONNECT_AUTHENTICATE_TOKEN": self._token}

    def _wait_until_listening(self) -> None:
        assert self._process is not None
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            try:
                socket.create_connection((HOST, self._port), timeout=1.0).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise ConnectServerError(f"the Connect server has not started:\n{self.last_lines()}")
