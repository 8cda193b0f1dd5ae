"""Processes of this machine, and a process on its own terminal (Linux)."""

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
    """A process on its own terminal, which its children share."""

    process: trio.Process
    _terminal: trio.lowlevel.FdStream
    shown: str = ""
    """The output of the terminal so far."""
    _is_closed: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def ctrl_c(self) -> None:
        """Type Ctrl-C: the terminal sends SIGINT to all processes of its foreground, if any still runs."""
        with suppress(trio.BrokenResourceError):
            await self._terminal.send_all(b"\x03")

    async def ended(self) -> int:
        """Wait until the terminal is closed, and return the exit code; `shown` is complete then."""
        code = await self.process.wait()
        await self._is_closed.wait()
        return code

    async def read(self) -> None:
        with suppress(trio.BrokenResourceError):  # raised on Linux once no process has the terminal open
            async for chunk in self._terminal:
                self.shown += chunk.decode(errors="replace")
        self._is_closed.set()


@asynccontextmanager
async def on_terminal(directory: Path, *command: str, before: Sequence[str] = ()) -> AsyncIterator[OnTerminal]:
    """Run `command` in `directory` on its own terminal; kill it at the end if it still runs.

    `before` is a prefix of the command line: a wrapper such as `unshare`.
    """
    controller, tty = os.openpty()
    modes = termios.tcgetattr(tty)
    modes[3] |= termios.NOFLSH  # otherwise Ctrl-C discards output that the terminal has not shown yet
    termios.tcsetattr(tty, termios.TCSANOW, modes)
    async with trio.lowlevel.FdStream(controller) as terminal, trio.open_nursery() as nursery:
        process = await trio.lowlevel.open_process(
            [*before, sys.executable, "-c", _TAKE_TERMINAL, *command],
            cwd=directory,
            stdin=tty,
            stdout=tty,
            stderr=tty,
        )
        os.close(tty)
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
    except (FileNotFoundError, ProcessLookupError):  # the latter if it is reaped meanwhile
        return False


def children(name: str, of: int | None = None) -> list[int]:
    """Return the ids of the child processes named `name`, zombies included, of process `of` (default: this one)."""
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
    except OSError:  # the process has just ended
        return b""


def _stat(pid: int) -> list[str]:
    """Return the fields of `stat` that follow the program's name: the state, the parent ..."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
