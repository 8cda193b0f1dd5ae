"""Runs member programs for a bench: starts one, reads its lines, and ends it."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Generic, TypeVar

import attrs
import trio

from bench.members.protocol import Line
from tests.integration.peers.running import ROOT

T = TypeVar("T")

READY_SECONDS = 60.0
"""Seconds in which a member must report what a bench waits for."""
_END_SECONDS = 20.0


class MemberError(Exception):
    """A member failed. The text says how, with the last line that it wrote to standard error."""


@attrs.define(eq=False)
class Program(Generic[T]):
    """A running program that prints lines."""

    process: trio.Process
    lines: list[T]
    _read: Callable[[bytes], T]
    _errors: Path
    _changed: trio.Event = attrs.field(factory=trio.Event)
    _is_over: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = READY_SECONDS) -> None:
        """Wait until the lines printed so far meet a condition.

        Args:
            condition: Called after each new line.
            what: Name of what is awaited, for the error.
            seconds: Time-out.

        Raises:
            MemberError: The program has ended, or the time is over.
        """
        with trio.move_on_after(seconds):
            while not condition():
                if self._is_over:
                    await self.process.wait()
                    raise MemberError(f"ended with {self.process.returncode}: {self.last_error()}")
                await self._changed.wait()
            return
        raise MemberError(f"did not report {what} within {seconds:g} s: {self.last_error()}")

    async def stop(self) -> None:
        """Send SIGTERM, and wait for the end. Raises MemberError if the program does not end, or not with 0."""
        self.process.terminate()
        with trio.move_on_after(_END_SECONDS):
            if code := await self.process.wait():
                raise MemberError(f"ended with {code}: {self.last_error()}")
            return
        raise MemberError(f"did not end within {_END_SECONDS:g} s: {self.last_error()}")

    async def listen(self) -> None:
        """Read lines until the program has ended. Raises MemberError if one cannot be parsed."""
        assert self.process.stdout is not None
        rest = b""
        try:
            async for chunk in self.process.stdout:
                *texts, rest = (rest + chunk).split(b"\n")
                self.lines += map(self._parse, texts)
                self._notify()
        finally:
            self._is_over = True
            self._notify()

    def _parse(self, text: bytes) -> T:
        try:
            return self._read(text)
        except (ValueError, TypeError, KeyError) as error:
            raise MemberError(f"printed {text[-200:]!r}, which is not a report: {error}") from error

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def last_error(self) -> str:
        """Return the last line that the program wrote to standard error."""
        return (self._errors.read_text(errors="replace").strip().splitlines() or ["no message"])[-1]


class Member(Program[Line]):
    """A program of `clients`."""

    def reports(self, event: str) -> list[Line]:
        """Return the reports of an event."""
        return [line for line in self.lines if line.event == event]

    async def assigned(self, partitions: int) -> None:
        """Wait until the member has been assigned this number of partitions. Raises MemberError."""
        await self.until(
            lambda: any(line.partitions == partitions for line in self.reports("assigned")), f"{partitions} partitions"
        )

    async def end(self) -> Line:
        """Send SIGTERM, and return the last report. Raises MemberError."""
        self.process.send_signal(signal.SIGTERM)
        await self.until(lambda: bool(self.reports("done")), "its last figures", _END_SECONDS)
        return self.reports("done")[-1]


P = TypeVar("P", bound=Program)  # type: ignore[type-arg]


@asynccontextmanager
async def open_member(command: Sequence[str]) -> AsyncIterator[Member]:
    """Run a member until the block ends. Then it is killed, if it still runs."""
    async with _open(command, Member, Line.of_json) as member:
        yield member


@asynccontextmanager
async def open_program(command: Sequence[str], read: Callable[[bytes], T]) -> AsyncIterator[Program[T]]:
    """Run any program, as `open_member` does. `read` parses one of its lines."""
    async with _open(command, Program[T], read) as program:
        yield program


@asynccontextmanager
async def _open(command: Sequence[str], kind: type[P], read: Callable[[bytes], T]) -> AsyncIterator[P]:
    with tempfile.NamedTemporaryFile() as errors:
        process = await trio.lowlevel.open_process(
            list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT
        )
        program = kind(process, [], read, Path(errors.name))
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(program.listen)
                yield program
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                process.kill()
                await process.wait()
