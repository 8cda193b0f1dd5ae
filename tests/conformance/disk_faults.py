"""Faults of a file system at one exact call: the process dies, the disk is full for a while, the call fails, or a file
server does not answer and executes the call later.

`Disk` replaces the functions of `os` that change a file system, and pyarrow's writer. After a simulated death every
further call raises, so the code changes nothing in a `finally` either.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pyarrow.parquet as pq
import pytest
import trio

CHANGING = ("link", "unlink", "rename", "replace", "mkdir", "rmdir", "fsync")
GROWING = ("link", "mkdir", "fsync", "open", "write_table", "write", "flush")
"""Calls that need free space."""
NAMING = ("link", "mkdir", "rename")
"""Calls that create names: a name that appears late may surprise others."""


LOOKING = ("stat", "lstat", "scandir", "listdir", "close")
"""Calls that change nothing, but fail on a broken disk or without free descriptors."""
READING = ("read_metadata", "read_schema", "ParquetFile")
"""Functions of pyarrow that read."""


class Died(BaseException):
    """A simulated kill of the process."""


@attrs.define
class Disk:
    """A watched file system with at most one kind of fault. `calls` has the names of all calls so far."""

    calls: list[str] = attrs.field(factory=list)
    timed_out: trio.Event = attrs.field(factory=trio.Event)
    """Set when the delayed call has timed out."""
    _late: Callable[[], Any] = lambda: None
    """The delayed call."""
    _fault: Callable[[int, str, Callable[[], Any], tuple[Any, ...]], Any] | None = None
    """Called instead of each call, with its number, its name, a function that executes it, and its arguments."""

    def install(self, monkeypatch: pytest.MonkeyPatch, *, is_all: bool = False) -> None:
        """Watch the calls that change the file system; with `is_all`, also those that open a file to read it."""
        for name in CHANGING:
            monkeypatch.setattr(os, name, self._watched(name, getattr(os, name)))
        monkeypatch.setattr(os, "open", self._watched_open(os.open, is_all=is_all))
        monkeypatch.setattr(pq, "write_table", self._watched("write_table", pq.write_table))

    def install_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Watch all calls of a landing to the file system, also those that change nothing."""
        self.install(monkeypatch, is_all=True)
        for name in LOOKING:
            monkeypatch.setattr(os, name, self._watched(name, getattr(os, name)))
        for name in READING:
            monkeypatch.setattr(pq, name, self._watched(name, getattr(pq, name)))
        monkeypatch.setattr(pq, "ParquetWriter", lambda *args, **kwargs: _WatchedWriter(self, *args, **kwargs))
        monkeypatch.setattr(io, "open", self._watched_io_open(io.open))
        wrapped = os.fdopen
        monkeypatch.setattr(os, "fdopen", lambda *args, **kwargs: _WatchedFile(wrapped(*args, **kwargs), self))

    def die_at(self, call: int, *, after: bool) -> None:
        """Let the process die before this call is executed, or right after it."""

        def fault(number: int, name: str, execute: Callable[[], Any], args: tuple[Any, ...]) -> Any:
            if number > call:
                raise Died
            if number < call:
                return execute()
            if after:
                execute()
            elif name == "fsync":
                _lose_half(args[0])
            elif name == "write_table":
                execute()
                _lose_half(args[1])
            raise Died

        self._fault = fault

    def fill_at(self, call: int, until: Callable[[], bool]) -> None:
        """Fail all calls that need space with ENOSPC, from this call on until `until()` is true."""

        def fault(number: int, name: str, execute: Callable[[], Any], args: tuple[Any, ...]) -> Any:
            if number < call or name not in GROWING or until():
                return execute()
            if name == "write_table":
                execute()
                _lose_half(args[1])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        self._fault = fault

    def fail_at(self, call: int, code: int) -> None:
        """Fail this call once with the error `code`. It does nothing, except that half of a Parquet file is written."""

        def fault(number: int, name: str, execute: Callable[[], Any], args: tuple[Any, ...]) -> Any:
            if number != call:
                return execute()
            if name == "close":
                execute()  # as on Linux: the descriptor is closed in spite of the error
            elif name == "write_table":
                execute()
                _lose_half(args[1])
            raise OSError(code, os.strerror(code))

        self._fault = fault

    def delay(self, call: int) -> None:
        """Fail this call with ETIMEDOUT, as on a soft mount of a file server. `catch_up` executes it later."""

        def fault(number: int, name: str, execute: Callable[[], Any], args: tuple[Any, ...]) -> Any:
            if number != call:
                return execute()
            self._late = _late_link(*args) if name == "link" else execute
            self.timed_out.set()
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

        self._fault = fault

    def catch_up(self) -> None:
        """Execute the delayed call, as the file server does. Nobody receives its result."""
        with suppress(OSError):
            self._late()

    def _watched_open(self, original: Callable[..., int], *, is_all: bool) -> Callable[..., int]:
        def watched_open(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            creates = bool(flags & os.O_CREAT)
            if not (creates or is_all):
                return original(path, flags, *args, **kwargs)
            name = "open" if creates else "read"
            descriptor: int = self.call(name, lambda: original(path, flags, *args, **kwargs), (path,))
            return descriptor

        return watched_open

    def _watched_io_open(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def watched_open(path: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            name = "open" if set(mode) & set("wxa") else "read"
            return self.call(name, lambda: original(path, mode, *args, **kwargs), (path,))

        return watched_open

    def _watched(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.call(name, lambda: original(*args, **kwargs), args)

    def call(self, name: str, execute: Callable[[], Any], args: tuple[Any, ...]) -> Any:
        """Record a call, and execute it or its fault."""
        self.calls.append(name)
        return self._fault(len(self.calls), name, execute, args) if self._fault else execute()


class _WatchedWriter(pq.ParquetWriter):  # type: ignore[misc]
    """A watched writer, which creates a file, writes row groups, and then the footer."""

    def __init__(self, disk: Disk, *args: Any, **kwargs: Any) -> None:
        self._disk = disk
        disk.call("open", lambda: super(_WatchedWriter, self).__init__(*args, **kwargs), ())

    def write_table(self, table: Any, row_group_size: int | None = None) -> None:
        self._disk.call("write", lambda: super(_WatchedWriter, self).write_table(table, row_group_size), ())

    def close(self) -> None:
        if self.is_open:
            try:
                self._disk.call("flush", super().close, ())
            finally:
                self.is_open = False


@attrs.define
class _WatchedFile:
    """A watched file that is written through a buffer: bytes may reach the disk when it is closed."""

    _file: Any
    _disk: Disk

    def __enter__(self) -> _WatchedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._disk.call("close", self._file.close, ())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, content: bytes) -> Any:
        return self._disk.call("write", lambda: self._file.write(content), ())

    def flush(self) -> Any:
        return self._disk.call("flush", self._file.flush, ())


def _lose_half(file: int | str | Path) -> None:
    """Cut a file in half: a crash may lose bytes that were written but not synced."""
    if not isinstance(file, int) or not os.path.isdir(f"/proc/self/fd/{file}"):
        with open(file, "r+b", closefd=not isinstance(file, int)) as opened:
            opened.truncate(opened.seek(0, os.SEEK_END) // 2)


def _late_link(file: str | Path, name: str | Path) -> Callable[[], Any]:
    """Return a function that creates the link later, as a file server does, even if `file` is removed until then."""
    content = Path(file).read_bytes()

    def link() -> None:
        with open(name, "xb") as linked:
            linked.write(content)

    return link
