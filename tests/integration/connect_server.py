"""A real Spark Connect server in a process of its own, with whatever jars and properties a test needs.

    with ConnectServer(tmp_path, lake_properties(tmp_path)) as server:
        SparkOptions(master=server.url)              # for a sink
        with server.session() as spark: ...          # for a test that speaks to it itself

Its port stays the same from start to start, so that a test can kill it and start it again under its clients.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
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

# The shell becomes the server. A child watches its standard input, which ends with the tests, however they end.
_WATCHED = 'exec 3<&0; (cat <&3 >/dev/null; kill -9 $$) & exec "$0" "$@" 3<&- </dev/null'


class ConnectServerError(Exception):
    """The server did not start; the text ends with the last lines of its log."""


class ConnectServer:
    """A Spark Connect server, which has started when the block is entered; it lives in `directory`.

    `properties` are Spark's (see `lake_properties`), and win over what a small server needs. With a `token` only
    clients that know it are served.
    """

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        *,
        master: str = "local[2]",
        token: str | None = None,
    ) -> None:
        self._directory = directory
        self._token = token
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
        # "localhost", since a token is given away in plain text to no other host.
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
        """A session of its own, with these settings, released at the end."""
        session = new_session(self.url)
        try:
            for key, value in (conf or {}).items():
                session.conf.set(key, value)
            yield session
        finally:
            session.stop()

    def start(self) -> None:
        """Start the process and wait until it answers. Raises ConnectServerError."""
        assert self._process is None
        self._directory.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            # A session of its own: Ctrl-C reaches the tests, and they end the server.
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
            self._wait_until_it_listens()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """End the process in order; after fifteen seconds by force."""
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
            self.kill()

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)  # who watches is left even where the server has ended
            with self._process:
                self._process = None

    def freeze(self) -> None:
        """Let the process stand still, with its connections open, until `thaw` (or its end)."""
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
        conf = [word for key, value in self._properties.items() for word in ("--conf", f"{key}={value}")]
        server = "org.apache.spark.sql.connect.service.SparkConnectServer"
        return ["bash", "-c", _WATCHED, str(submit), *conf, "--class", server, "spark-internal"]

    def _environment(self) -> dict[str, Any]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
        environment |= quick_spark()
        environment.setdefault("PYSPARK_PYTHON", sys.executable)  # of its Python workers
        return environment if self._token is None else {**environment, "SPARK_CONNECT_AUTHENTICATE_TOKEN": self._token}

    def _wait_until_it_listens(self) -> None:
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
