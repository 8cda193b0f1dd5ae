"""A member at work, as a bench holds it: started, listened to, ended."""

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

from bench.members.telling import Line
from tests.integration.peers.running import ROOT

T = TypeVar("T")

READY_SECONDS = 60.0
"""What a member may take until it has what it waits for."""
_END_SECONDS = 20.0


class MemberError(Exception):
    """A member did not do what it should; the text says what, and the last of what it wrote to standard error."""


@attrs.define(eq=False)
class Program(Generic[T]):
    """A program that tells lines."""

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
        """Wait until what it tells makes `condition` true: `what`, for people. Raises MemberError."""
        with trio.move_on_after(seconds):
            while not condition():
                if self._is_over:
                    await self.process.wait()
                    raise MemberError(f"ended with {self.process.returncode}: {self.said()}")
                await self._changed.wait()
            return
        raise MemberError(f"did not tell {what} within {seconds:g} s: {self.said()}")

    async def stop(self) -> None:
        """Let it end in order. Raises MemberError where it does not, or not well."""
        self.process.terminate()
        with trio.move_on_after(_END_SECONDS):
            if code := await self.process.wait():
                raise MemberError(f"ended with {code}: {self.said()}")
            return
        raise MemberError(f"did not end within {_END_SECONDS:g} s: {self.said()}")

    async def listen(self) -> None:
        """Take down what it tells, until it has ended. Raises MemberError for what is no line."""
        assert self.process.stdout is not None
        rest = b""
        try:
            async for chunk in self.process.stdout:
                *texts, rest = (rest + chunk).split(b"\n")
                self.lines += map(self._line, texts)
                self._change()
        finally:
            self._is_over = True
            self._change()

    def _line(self, text: bytes) -> T:
        try:
            return self._read(text)
        except (ValueError, TypeError, KeyError) as error:
            raise MemberError(f"told {text[-200:]!r}, which is no line: {error}") from error

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def said(self) -> str:
        """The last of what it wrote to standard error."""
        return (self._errors.read_text(errors="replace").strip().splitlines() or ["without a word"])[-1]


class Member(Program[Line]):
    """A program of `clients`."""

    def told(self, event: str) -> list[Line]:
        return [line for line in self.lines if line.event == event]

    async def assigned(self, partitions: int) -> None:
        """Wait until it has been assigned so many partitions. Raises MemberError."""
        await self.until(
            lambda: any(line.partitions == partitions for line in self.told("assigned")), f"{partitions} partitions"
        )

    async def end(self) -> Line:
        """Let it end: what it told last. Raises MemberError."""
        self.process.send_signal(signal.SIGTERM)
        await self.until(lambda: bool(self.told("done")), "what it had done", _END_SECONDS)
        return self.told("done")[-1]


P = TypeVar("P", bound=Program)  # type: ignore[type-arg]


@asynccontextmanager
async def open_member(command: Sequence[str]) -> AsyncIterator[Member]:
    """The program at work, for the length of the block; it is killed at the end of that."""
    async with _open(command, Member, Line.of_json) as member:
        yield member


@asynccontextmanager
async def open_program(command: Sequence[str], read: Callable[[bytes], T]) -> AsyncIterator[Program[T]]:
    """The same for any program; `read` reads a line of it."""
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
