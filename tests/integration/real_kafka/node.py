"""A broker of a real Kafka cluster: its directory, its properties, its process.

It owns the process from start to stop. `cluster` supplies what its brokers share (cluster id, voters).
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

import attrs

from tests.integration.class_data import quick
from tests.integration.real_kafka.kerberos import HOST_NAME

HOST = "127.0.0.1"

_HEAP = "-Xmx512m"
_STOP_SECONDS = 15
_FORMAT_SECONDS = 60

_LOGGING = (
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
    f"-Dlog4j.configuration={Path(__file__).with_name('log4j.properties').as_uri()}",
)


class KafkaStartError(Exception):
    """A broker did not start; the text ends with the last lines of its log."""


def free_ports(count: int) -> list[int]:
    """Return different loopback ports on which nothing listens.

    They lie outside the range from which the kernel takes ports for outgoing connections. So no connection can occupy
    a port before the broker does.
    """
    return list(islice(filter(_is_free, random.SystemRandom().sample(range(20_000, 32_000), 1_000)), count))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


@attrs.define
class Node:
    """A broker and controller in one process (KRaft's combined mode), with its files in `directory`."""

    node_id: int
    directory: Path
    jars: Path
    port: int
    controller_port: int
    proxy: tuple[int, int] | None = None
    """The port of a second listener, and the port that it advertises: a proxy's. See `RealKafka`."""
    others: Mapping[str, int] = attrs.field(factory=dict)
    """The ports of further listeners, by name."""
    scram_users: Sequence[str] = ()
    """Users in the syntax of `kafka-storage format --add-scram`."""
    jvm_options: Sequence[str] = ()
    _process: subprocess.Popen[bytes] | None = attrs.field(default=None, init=False)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def voter(self) -> str:
        """Return this node as an element of `controller.quorum.voters`."""
        return f"{self.node_id}@{HOST}:{self.controller_port}"

    @property
    def log_file(self) -> Path:
        return self.directory / "server.log"

    @property
    def pid(self) -> int:
        """Id of the process, which must have been started."""
        assert self._process is not None
        return self._process.pid

    def format(self, cluster_id: str, shared: Mapping[str, str]) -> None:
        """Write the properties (its own and `shared`), and format the storage. Raises KafkaStartError."""
        self.directory.mkdir(parents=True)
        properties = {
            "node.id": str(self.node_id),
            "process.roles": "broker,controller",
            "listeners": ",".join([*self._listeners(0), f"CONTROLLER://{HOST}:{self.controller_port}"]),
            "advertised.listeners": ",".join(self._listeners(1)),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.directory / "data"),
            **shared,
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        users = [argument for user in self.scram_users for argument in ("--add-scram", user)]
        command = self._java("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self._properties), *users)
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FORMAT_SECONDS, check=False)
        if done.returncode != 0:
            raise KafkaStartError(f"broker {self.node_id} could not format its storage:\n{done.stdout}{done.stderr}")

    def start(self) -> None:
        """Start the process. It responds some seconds later (`RealKafka` waits for that)."""
        with self.log_file.open("ab") as log:
            # A session of its own: Ctrl-C reaches the tests alone, and they end the broker in order.
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._properties)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def check_running(self) -> None:
        """Raise KafkaStartError if the process has ended without `stop` or `kill`."""
        if self._process is not None and not self.is_running:
            raise KafkaStartError(f"broker {self.node_id} has ended:\n{self.last_lines()}")

    def stop(self) -> None:
        """End the process in order (its leaderships move first), or by force after fifteen seconds."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Suspend the process, with its connections open, until `thaw` (or its end)."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume the process if it is suspended."""
        os.kill(self.pid, signal.SIGCONT)

    def last_lines(self, count: int = 40) -> str:
        """Return the last lines of the broker's log, and its path."""
        lines = self.log_file.read_text(errors="replace").splitlines() if self.log_file.exists() else []
        return "\n".join([*lines[-count:], f"(the whole log: {self.log_file})"])

    def _listeners(self, which: int) -> list[str]:
        """Return the listeners for clients: the real addresses (0), or the advertised ones (1)."""
        proxied = [] if self.proxy is None else [f"PROXIED://{HOST}:{self.proxy[which]}"]
        others = [f"{name}://{HOST_NAME}:{port}" for name, port in self.others.items()]
        return [f"PLAINTEXT://{self.address}", *proxied, *others]

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def _java(self, main: str, *args: str) -> list[str]:
        return java(self.jars, main, *args, options=(_HEAP, *_LOGGING, *self.jvm_options))


def java_program() -> str:
    """Return the Java that Spark uses too: that of JAVA_HOME, or else `java` on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def java(jars: Path, main: str, *args: str, options: tuple[str, ...] = ()) -> list[str]:
    """Return the command that runs the class `main` of the jars."""
    return [java_program(), *quick(jars.name), *options, "-cp", f"{jars}/*", main, *args]
