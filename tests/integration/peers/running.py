"""Running peer programs, for tests and benches: start them, read their reports, stop them in order or kill them.

`COMMANDS` has the programs. Their output is read as it arrives; `Peers` keeps all of it, also after a program's end. If
a program ends by itself, the block fails with the end of its standard error.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from tests.integration.peers.lines import Line, MemberOptions
from tests.integration.real_kafka.jars import kafka_jars
from tests.integration.real_kafka.node import java

ROOT = Path(__file__).parents[3]

STOP_SECONDS = 20.0
"""The longest time that a member may take to leave in order."""

_CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_JAVA_ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


Command = Callable[[MemberOptions], list[str]]


def _python(module: str, *more: str) -> Command:
    return lambda options: [sys.executable, "-m", f"tests.integration.peers.{module}", options.to_json(), *more]


def _java(options: MemberOptions) -> list[str]:
    """Return the command of Kafka's own console consumer. `_java_line` parses its lines."""
    properties = {
        "client.id": options.client_id,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": "1000",
        "group.protocol": "classic",
        "session.timeout.ms": str(options.session_timeout_ms),
        "heartbeat.interval.ms": str(options.heartbeat_interval_ms),
        "partition.assignment.strategy": f"org.apache.kafka.clients.consumer.{_JAVA_ASSIGNORS[options.strategy]}",
    }
    arguments = ["--bootstrap-server", options.bootstrap, "--topic", options.topic, "--group", options.group]
    for key, value in properties.items():
        arguments += ["--consumer-property", f"{key}={value}"]
    for shown in ("print.partition", "print.offset"):
        arguments += ["--property", f"{shown}=true"]
    return java(kafka_jars(), _CONSOLE_CONSUMER, *arguments, options=("-Xmx128m",))


def _java_line(text: bytes) -> Line:
    partition, offset, value = text.decode().split("\t")
    number, at = int(partition.removeprefix("Partition:")), int(offset.removeprefix("Offset:"))
    return Line("message", time.time(), (number,), at, value)


COMMANDS: Mapping[str, Command] = {
    "sarameya": _python("sarameya_member"),
    "message-handler": _python("handler_member"),
    "threads": _python("handler_member", "threads"),
    "aiokafka": _python("aiokafka_member"),
    "confluent-kafka": _python("confluent_member"),
    "kafka-python": _python("kafka_python_member"),
    "java": _java,
}
"""The command that runs each kind of member."""


class PeerError(Exception):
    """A peer program did not end as it should. The text has the end of its standard error."""


@attrs.define(eq=False)
class Peer:
    """A running program, or its reports after its end."""

    kind: str
    options: MemberOptions
    errors: Path
    """The file of its standard error."""
    lines: list[Line] = attrs.field(factory=list)
    started: float = attrs.field(factory=time.time)
    ended: trio.Event = attrs.field(factory=trio.Event)
    _process: trio.Process | None = None
    _ending: bool = False

    @property
    def client_id(self) -> str:
        return self.options.client_id

    @property
    def messages(self) -> list[Line]:
        return self.reports("message")

    def reports(self, event: str) -> list[Line]:
        return [line for line in self.lines if line.event == event]

    def changes(self) -> list[str]:
        """Return all reports except messages, as text."""
        return [f"{line.event} {list(line.partitions)}" for line in self.lines if line.event != "message"]

    def owned(self) -> set[int]:
        """Return its partitions. Not for clients that report all partitions with each change."""
        found: set[int] = set()
        for line in self.lines:
            if line.event == "assigned":
                found |= set(line.partitions)
            elif line.event == "revoked":
                found -= set(line.partitions)
        return found

    def read_since(self, number: int) -> set[tuple[int, int]]:
        """Return the (partition, offset) of each message among its lines from `number` on."""
        return {line.place for line in self.lines[number:] if line.event == "message"}

    async def stop(self) -> None:
        """Let it leave the group and end, in order. Raises PeerError."""
        code = await self._end(signal.SIGTERM)
        # A Java program that ends in order upon SIGTERM exits with 143.
        if code not in (0, -signal.SIGTERM, 128 + signal.SIGTERM):
            raise PeerError(f"{self.client_id} ended with {code}:\n{self.last_errors()}")

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal that does not end it, for example SIGSTOP."""
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        """End it as a crash would."""
        await self._end(signal.SIGKILL)

    def last_errors(self, lines: int = 40) -> str:
        """Return the last lines of its standard error."""
        return "\n".join(self.errors.read_text(errors="replace").splitlines()[-lines:])

    async def _end(self, number: signal.Signals) -> int | None:
        assert self._process is not None
        self._ending = True
        self._process.send_signal(number)
        with trio.move_on_after(STOP_SECONDS):
            await self.ended.wait()
            return self._process.returncode
        raise PeerError(f"{self.client_id} has not ended {STOP_SECONDS:g} s after {number.name}:\n{self.last_errors()}")

    async def _run(
        self, command: list[str], on_lines: Callable[[list[Line]], None], *, task_status: trio.TaskStatus[None]
    ) -> None:
        with self.errors.open("wb") as errors:
            self._process = await trio.lowlevel.open_process(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT
            )
        task_status.started()
        try:
            await self._read_lines(on_lines)
            await self._process.wait()
            if not self._ending:
                code = self._process.returncode
                raise PeerError(f"{self.client_id} ended by itself with {code}:\n{self.last_errors()}")
        finally:
            with trio.CancelScope(shield=True):
                if self._process.poll() is None:
                    self._process.kill()
                await self._process.wait()
            self.ended.set()
            on_lines([])

    async def _read_lines(self, on_lines: Callable[[list[Line]], None]) -> None:
        read = _java_line if self.kind == "java" else Line.of_json
        assert self._process is not None
        assert self._process.stdout is not None
        rest = b""  # a line that is not complete yet; a line that a kill cuts off is dropped
        async for chunk in self._process.stdout:
            *texts, rest = (rest + chunk).split(b"\n")
            lines = list(map(read, texts))
            self.lines += lines
            on_lines(lines)


class Peers:
    """All members that a block has started, including those that have ended."""

    def __init__(self, nursery: trio.Nursery, directory: Path, commands: Mapping[str, Command]) -> None:
        self._nursery = nursery
        self._directory = directory
        self._commands = commands
        self._changed = trio.Event()
        self.all: list[Peer] = []
        self.read: Counter[tuple[int, int]] = Counter()
        """How often each (partition, offset) was read, by all members together."""

    @property
    def live(self) -> list[Peer]:
        return [peer for peer in self.all if not peer.ended.is_set()]

    async def start(self, kind: str, options: MemberOptions) -> Peer:
        """Start a member. It joins the group some time later."""
        command = await trio.to_thread.run_sync(self._commands[kind], options)
        peer = Peer(kind, options, self._directory / f"{options.client_id}.err")
        self.all.append(peer)
        await self._nursery.start(peer._run, command, self._on_lines)
        return peer

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the members' reports make `condition` true."""
        while not condition():
            await self._changed.wait()

    def _on_lines(self, lines: list[Line]) -> None:
        self.read.update(line.place for line in lines if line.event == "message")
        self._changed.set()
        self._changed = trio.Event()


@asynccontextmanager
async def open_peers(commands: Mapping[str, Command] = COMMANDS) -> AsyncIterator[Peers]:
    """Run members while the block runs, and kill those that still run at its end."""
    with tempfile.TemporaryDirectory() as directory:
        async with trio.open_nursery() as nursery:
            yield Peers(nursery, Path(directory), commands)
            nursery.cancel_scope.cancel()
