"""Processes of this machine, and one on a terminal (Linux)."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import attrs
import trio

_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


@attrs.define
class OnTerminal:
    """A process that has a terminal to itself, with all that it starts."""

    process: trio.Process
    _terminal: trio.lowlevel.FdStream
    shown: str = ""
    """What the terminal has shown so far."""
    _is_free: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def ctrl_c(self) -> None:
        """Type it: the terminal makes a SIGINT of it, for all that stand in its foreground, if any still does."""
        with suppress(trio.BrokenResourceError):
            await self._terminal.send_all(b"\x03")

    async def ended(self) -> int:
        """Return the exit code once the terminal is closed; `shown` is complete then."""
        code = await self.process.wait()
        await self._is_free.wait()
        return code

    async def read(self) -> None:
        with suppress(trio.BrokenResourceError):  # how Linux says that nobody holds it any more
            async for chunk in self._terminal:
                self.shown += chunk.decode(errors="replace")
        self._is_free.set()


@asynccontextmanager
async def on_terminal(directory: Path, *command: str, before: Sequence[str] = ()) -> AsyncIterator[OnTerminal]:
    """`command`, started in `directory` on a terminal of its own, by way of what stands `before` it, and killed at the
    end if it still runs."""
    ours, theirs = os.openpty()
    modes = termios.tcgetattr(theirs)
    modes[3] |= termios.NOFLSH  # else a Ctrl-C takes away what is on its way to be shown
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    async with trio.lowlevel.FdStream(ours) as terminal, trio.open_nursery() as nursery:
        process = await trio.lowlevel.open_process(
            [*before, sys.executable, "-c", _TAKE_TERMINAL, *command],
            cwd=directory,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        running = OnTerminal(process, terminal)
        nursery.start_soon(running.read)
        try:
            yield running
        finally:
            with trio.CancelScope(shield=True):
                process.kill()
                await process.wait()
        nursery.cancel_scope.cancel()


def is_running(pid: int) -> bool:
    """Return whether the process exists and is no zombie."""
    try:
        return _stat(pid)[0] != "Z"
    except FileNotFoundError:
        return False


def children(name: str, of: int | None = None) -> list[int]:
    """The ids of the processes called `name`, zombies included, that process `of` (default: this one) has started."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            pid = int(directory.name)
            if int(_stat(pid)[1]) == (of or os.getpid()) and (directory / "comm").read_text().strip() == name:
                found.append(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return sorted(found)


def marked(mark: str) -> list[str]:
    """Return the command lines of the processes with `mark` in their environment; children inherit it."""
    return list(marked_processes(mark).values())


def marked_processes(mark: str) -> dict[int, str]:
    """Return the ids and command lines of the processes that `marked` finds."""
    return {
        int(entry.name): _bytes(entry / "cmdline").replace(b"\0", b" ").decode()
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and mark.encode() in _bytes(entry / "environ")
    }


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # it has just ended
        return b""


def _stat(pid: int) -> list[str]:
    """The fields behind the program's name: the state, the parent ..."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
