"""The test's end of `member.py`: starts members, waits for what they tell, stops them exactly at a phase."""

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

Told = dict[str, Any]


@attrs.define(eq=False)
class Member:
    """A member's process. `told` is what it has said so far, in order; its log is a file."""

    name: str
    process: trio.Process
    log: Path
    told: list[Told] = attrs.field(factory=list)
    is_over: bool = False
    _news: trio.Event = attrs.field(factory=trio.Event)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until what it has told makes this true. Raises AssertionError if it ends before."""
        while not condition():
            assert not self.is_over, f"{self.name} has ended before {what}"
            await self._news.wait()

    async def saw(self, what: str, condition: Callable[[Told], bool]) -> Told:
        """Something it tells from now on, of which this is true."""
        since = len(self.told)
        await self.until(lambda: any(map(condition, self.told[since:])), what)
        return next(filter(condition, self.told[since:]))

    async def do(self, command: str) -> None:
        """Give it a command, and wait until it has taken it."""
        assert self.process.stdin is not None
        count = sum(told.get("did") == command for told in self.told)
        await self.process.stdin.send_all(command.encode() + b"\n")
        await self.until(lambda: sum(told.get("did") == command for told in self.told) > count, command)

    async def join(self) -> None:
        await self.until(lambda: any("ready" in told for told in self.told), "it was ready")
        await self.do("join")

    async def is_to(self, how: str, phase: Phase, nth: int = 1) -> None:
        """`how` is kill or stop; it happens when a landing is there, the nth time from now."""
        await self.do(f"arm {phase} {how} {nth}")

    async def has_stopped(self) -> Told:
        """Wait until it stands still; the phase at which it does."""
        hit = await self._hit()
        while _state(self.process.pid) != "T":
            await trio.sleep(0.005)
        return hit

    async def has_died(self) -> Told:
        hit = await self._hit()
        assert await self.process.wait() == -signal.SIGKILL
        return hit

    async def _hit(self) -> Told:
        await self.until(lambda: any(told.get("hit") for told in self.told), "it was hit")
        hit = next(told for told in self.told if told.get("hit"))
        hit["hit"] = False  # the next one is another
        return hit

    def go_on(self) -> None:
        """After it was stopped."""
        os.kill(self.process.pid, signal.SIGCONT)

    @property
    def owns(self) -> set[str]:
        """The partitions that it has, as far as it has told."""
        owned: set[str] = set()
        for told in self.told:
            owned |= set(told.get("assigned", ()))
            owned -= {*told.get("revoked", ()), *told.get("lost", ())}
        return owned

    @property
    def sessions(self) -> int:
        """Number of sessions so far; one, unless the member has lost its membership."""
        return sum("member" in told for told in self.told)

    @property
    def member_id(self) -> str:
        """Member id in the group, or the last one."""
        return next(str(told["member"]) for told in reversed(self.told) if "member" in told)

    async def close(self) -> None:
        """Let it leave in order, which must go well."""
        await self.do("close")
        assert await self.process.wait() == 0, self.last_lines()

    def last_lines(self, count: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        left = b""
        async for piece in self.process.stdout:
            *lines, left = (left + piece).split(b"\n")
            self.told += map(json.loads, lines)
            self._tell()
        self.is_over = True
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = trio.Event()


@attrs.define
class Members:
    """All members of one group; `start` starts one."""

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
        """A process that has started, and may be told to join; `sink`: what its sink has otherwise than the others'.
        Where it `is_slow`, Spark takes seconds for its landings."""
        told = {
            "bootstrap_servers": list(self.bootstrap_servers),
            "group": self.group,
            "topics": list(self.topics),
            "place": self.place.to_words(),
            "config": dict(self.config),
            "sink": {**self.sink, **sink},
            "is_slow": is_slow,
        }
        name = name or f"member-{len(self.all) + 1}"
        log = self.place.directory / f"{name}.log"
        command = [sys.executable, "-m", "tests.conformance.member", self.contender.name, json.dumps(told)]
        with log.open("wb") as errors:
            process = await trio.lowlevel.open_process(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        member = Member(name, process, log)
        self.all.append(member)
        self._nursery.start_soon(member._listen)
        return member

    async def close(self) -> None:
        """Let all that live leave in order, one after the other."""
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
    """A group whose members are processes; none of them outlives the block, and it is over within `seconds`. What they
    logged stands beside a failure."""
    # Long on purpose where there is Spark: a busy machine may take most of a minute to start one.
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
            with trio.move_on_after(seconds) as patience:
                yield started
            if patience.cancelled_caught:
                raise AssertionError(f"not over after {seconds:.0f} s")
        except Exception as error:
            for member in started.all:
                error.add_note(f"-- {member.name}, {member.told[-3:]}:\n{member.last_lines()}")
            raise
        finally:
            for member in started.all:
                member.process.kill()
            with trio.CancelScope(shield=True):
                for member in started.all:
                    await member.process.wait()


def _state(pid: int) -> str:
    """The kernel's letter for what a process does: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
