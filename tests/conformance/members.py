"""Control of members in other processes (`member.py`): starts them, reads their reports, stops them at exact phases."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from sarameya_handlers.spark.tables.table import Phase
from tests.conformance.contenders import Contender, Place, Runs

ROOT = Path(__file__).parents[2]

Report = dict[str, Any]


@attrs.define(eq=False)
class Member:
    """A member's process. `reports` lists its reports so far, in order. `log` is its log file."""

    name: str
    process: trio.Process
    log: Path
    reports: list[Report] = attrs.field(factory=list)
    has_ended: bool = False
    _new_reports: trio.Event = attrs.field(factory=trio.Event)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until a condition on the reports is true.

        Args:
            condition: checked after each new report.
            what: the condition in words, for the error.

        Raises:
            AssertionError: The process has ended before.
        """
        while not condition():
            assert not self.has_ended, f"{self.name} has ended before {what}"
            await self._new_reports.wait()

    async def next_report(self, what: str, condition: Callable[[Report], bool]) -> Report:
        """Wait for a new report for which the condition is true."""
        since = len(self.reports)
        await self.until(lambda: any(map(condition, self.reports[since:])), what)
        return next(filter(condition, self.reports[since:]))

    async def send(self, command: str) -> None:
        """Send a command, and wait until the member has executed it."""
        assert self.process.stdin is not None
        count = sum(report.get("did") == command for report in self.reports)
        await self.process.stdin.send_all(command.encode() + b"\n")
        await self.until(lambda: sum(report.get("did") == command for report in self.reports) > count, command)

    async def join(self) -> None:
        await self.until(lambda: any("ready" in report for report in self.reports), "it was ready")
        await self.send("join")

    async def arm(self, how: str, phase: Phase, nth: int = 1) -> None:
        """Let the member kill or stop itself at a phase.

        Args:
            how: "kill" or "stop".
            phase: the phase of a landing.
            nth: the number of times from now that landings reach the phase.
        """
        await self.send(f"arm {phase} {how} {nth}")

    async def until_stopped(self) -> Report:
        """Wait until the member has stopped itself. Return the report of the phase."""
        hit = await self._next_hit()
        while _state(self.process.pid) != "T":
            await trio.sleep(0.005)
        return hit

    async def until_killed(self) -> Report:
        """Wait until the member has killed itself. Return the report of the phase."""
        hit = await self._next_hit()
        assert await self.process.wait() == -signal.SIGKILL
        return hit

    async def _next_hit(self) -> Report:
        await self.until(lambda: any(report.get("hit") for report in self.reports), "it was hit")
        hit = next(report for report in self.reports if report.get("hit"))
        hit["hit"] = False  # so that the next call waits for a new hit
        return hit

    def resume(self) -> None:
        """Continue a stopped member."""
        os.kill(self.process.pid, signal.SIGCONT)

    @property
    def owns(self) -> set[str]:
        """Partitions that the member owns, according to its reports."""
        owned: set[str] = set()
        for report in self.reports:
            owned |= set(report.get("assigned", ()))
            owned -= {*report.get("revoked", ()), *report.get("lost", ())}
        return owned

    @property
    def sessions(self) -> int:
        """Number of sessions so far; one, unless the member has lost its membership."""
        return sum("member" in report for report in self.reports)

    @property
    def member_id(self) -> str:
        """The member's present or last member id."""
        return next(str(report["member"]) for report in reversed(self.reports) if "member" in report)

    async def close(self) -> None:
        """Let the member leave in order, and check its exit code."""
        await self.send("close")
        assert await self.process.wait() == 0, self.last_lines()

    def last_lines(self, count: int = 30) -> str:
        """Return the end of the member's log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])

    async def _read_reports(self) -> None:
        assert self.process.stdout is not None
        incomplete = b""
        async for data in self.process.stdout:
            *lines, incomplete = (incomplete + data).split(b"\n")
            self.reports += map(json.loads, lines)
            self._notify()
        self.has_ended = True
        self._notify()

    def _notify(self) -> None:
        self._new_reports.set()
        self._new_reports = trio.Event()


@attrs.define
class Members:
    """All members of one group. `start` starts a further member."""

    contender: Contender
    place: Place
    bootstrap_servers: Sequence[str]
    group: str
    topics: Sequence[str]
    config: Mapping[str, Any]
    sink: Mapping[str, Any]
    _nursery: trio.Nursery
    all: list[Member] = attrs.field(factory=list)

    async def start(self, name: str = "", *, is_slow: bool = False, **sink: Any) -> Member:
        """Start a process, which becomes a member by `Member.join`.

        Args:
            name: the name of the process, also of its log file.
            is_slow: whether Spark takes seconds for each of its landings.
            sink: options of its sink that differ from those of the other members.
        """
        settings = {
            "bootstrap_servers": list(self.bootstrap_servers),
            "group": self.group,
            "topics": list(self.topics),
            "place": self.place.to_arguments(),
            "config": dict(self.config),
            "sink": {**self.sink, **sink},
            "is_slow": is_slow,
        }
        name = name or f"member-{len(self.all) + 1}"
        log = self.place.directory / f"{name}.log"
        command = [sys.executable, "-m", "tests.conformance.member", self.contender.name, json.dumps(settings)]
        with log.open("wb") as errors:
            process = await trio.lowlevel.open_process(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        member = Member(name, process, log)
        self.all.append(member)
        self._nursery.start_soon(member._read_reports)
        return member

    async def close(self) -> None:
        """Let all living members leave in order, one after the other."""
        for member in self.all:
            if member.process.returncode is None:
                await member.close()


@asynccontextmanager
async def members(
    contender: Contender,
    place: Place,
    bootstrap_servers: Sequence[str],
    topics: Sequence[str],
    *,
    group: str = "landing",
    config: Mapping[str, Any] | None = None,
    sink: Mapping[str, Any] | None = None,
    seconds: float | None = None,
) -> AsyncIterator[Members]:
    """Open a group whose members are processes. An exception in the block gets the ends of their logs as notes.

    Args:
        contender: the table adapter of the members.
        place: the place of the test.
        bootstrap_servers: addresses of brokers.
        topics: the topics to land.
        group: the id of the group.
        config: options of Config of all members.
        sink: options of the sinks of all members.
        seconds: the timeout of the block; all processes are killed at its end.
    """
    # Long on purpose with Spark: a busy machine may need most of a minute to start it.
    seconds = seconds or (120.0 if contender.runs is Runs.THREADS else 600.0)
    async with trio.open_nursery() as nursery:
        started = Members(
            contender,
            place,
            bootstrap_servers,
            group,
            topics,
            {"autocommit_interval": 0.1, "heartbeat_interval": 0.3, **(config or {})},
            {"max_rows": 50, "max_age": 0.3, **(sink or {})},
            nursery,
        )
        try:
            with trio.move_on_after(seconds) as scope:
                yield started
            if scope.cancelled_caught:
                raise AssertionError(f"not over after {seconds:.0f} s")
        except Exception as error:
            for member in started.all:
                error.add_note(f"-- {member.name}, {member.reports[-3:]}:\n{member.last_lines()}")
            raise
        finally:
            for member in started.all:
                member.process.kill()
            with trio.CancelScope(shield=True):
                for member in started.all:
                    await member.process.wait()


def _state(pid: int) -> str:
    """Return the kernel's letter for the state of a process: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
