"""A file system on which things go wrong at one call exactly: a process dies there, there is no room for a while, the
call fails, or a server of files does not answer, and carries it out later.

What is put in place of are the functions of `os` that change a file system, and pyarrow's writer. A process that has
died changes nothing any more, in no `finally` either.
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
"""What needs room."""
NAMING = ("link", "mkdir", "rename")
"""What gives names: carried out late, it is a surprise."""


LOOKING = ("stat", "lstat", "scandir", "listdir", "close")
"""What fails, too, where a disk is broken or descriptors run out."""
READING = ("read_metadata", "read_schema", "ParquetFile")
"""Of pyarrow's."""


class Died(BaseException):
    """The process was killed here."""


@attrs.define
class Disk:
    """`calls` counts what has been asked of it. `at(n, action)` has the n-th call go wrong."""

    calls: list[str] = attrs.field(factory=list)
    given_up: trio.Event = attrs.field(factory=trio.Event)
    """Set when a call was given up that was not answered."""
    _late: Callable[[], Any] = lambda: None
    _wrong: Callable[[int, str, Callable[[], Any], tuple[Any, ...]], Any] | None = None

    def put_in_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in CHANGING:
            monkeypatch.setattr(os, name, self._watched(name, getattr(os, name)))
        monkeypatch.setattr(os, "open", self._watched_open(os.open, is_all=False))
        monkeypatch.setattr(pq, "write_table", self._watched("write_table", pq.write_table))

    def put_in_place_of_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Watch every call that a landing makes to the file system, those that only look included."""
        self.put_in_place(monkeypatch)
        for name in LOOKING:
            monkeypatch.setattr(os, name, self._watched(name, getattr(os, name)))
        for name in READING:
            monkeypatch.setattr(pq, name, self._watched(name, getattr(pq, name)))
        monkeypatch.setattr(pq, "ParquetWriter", lambda *args, **kwargs: _WatchedWriter(self, *args, **kwargs))
        monkeypatch.setattr(io, "open", self._watched("read", io.open))
        wrapped = os.fdopen
        monkeypatch.setattr(os, "fdopen", lambda *args, **kwargs: _WatchedFile(wrapped(*args, **kwargs), self))

    def dies(self, call: int, *, after: bool) -> None:
        """The process dies before the call is carried out, or right after it."""

        def wrong(number: int, name: str, carry_out: Callable[[], Any], args: tuple[Any, ...]) -> Any:
            if number > call:
                raise Died
            if number < call:
                return carry_out()
            if after:
                carry_out()
            elif name == "fsync":
                _forget_half(args[0])
            elif name == "write_table":
                carry_out()
                _forget_half(args[1])
            raise Died

        self._wrong = wrong

    def is_full(self, call: int, until: Callable[[], bool]) -> None:
        """Fail writes from this call on, until there is room again."""

        def wrong(number: int, name: str, carry_out: Callable[[], Any], args: tuple[Any, ...]) -> Any:
            if number < call or name not in GROWING or until():
                return carry_out()
            if name == "write_table":
                carry_out()
                _forget_half(args[1])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        self._wrong = wrong

    def fails(self, call: int, code: int) -> None:
        """Fail this call with this error, once; it does nothing except for half of a write."""

        def wrong(number: int, name: str, carry_out: Callable[[], Any], args: tuple[Any, ...]) -> Any:
            if number != call:
                return carry_out()
            if name == "close":
                carry_out()  # as Linux has it: the descriptor is gone
            elif name == "write_table":
                carry_out()
                _forget_half(args[1])
            raise OSError(code, os.strerror(code))

        self._wrong = wrong

    def is_late(self, call: int) -> None:
        """The call fails for want of an answer, as on a mount that does not wait for ever. It is carried out when
        `catch_up` says so, whatever has happened meanwhile."""

        def wrong(number: int, name: str, carry_out: Callable[[], Any], args: tuple[Any, ...]) -> Any:
            if number != call:
                return carry_out()
            self._late = _linking(*args) if name == "link" else carry_out
            self.given_up.set()
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

        self._wrong = wrong

    def catch_up(self) -> None:
        """Nobody hears of how it ends."""
        with suppress(OSError):
            self._late()

    def _watched_open(self, opened: Callable[..., int], *, is_all: bool) -> Callable[..., int]:
        def watched_open(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            is_made = bool(flags & os.O_CREAT)
            if not (is_made or is_all):
                return opened(path, flags, *args, **kwargs)
            name = "open" if is_made else "read"
            return self.call(name, lambda: opened(path, flags, *args, **kwargs), (path,))  # type: ignore[no-any-return]

        return watched_open

    def _watched(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.call(name, lambda: original(*args, **kwargs), args)

    def call(self, name: str, carry_out: Callable[[], Any], args: tuple[Any, ...]) -> Any:
        self.calls.append(name)
        return self._wrong(len(self.calls), name, carry_out, args) if self._wrong else carry_out()


class _WatchedWriter(pq.ParquetWriter):  # type: ignore[misc]
    """Makes a file, writes row groups, and at last the footer."""

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
    """A file that is written; its bytes are on their way to the disk when it is closed, at the latest."""

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


def _forget_half(file: int | str | Path) -> None:
    """Cut a file in half: bytes that were written and not synced may be lost."""
    if not isinstance(file, int) or not os.path.isdir(f"/proc/self/fd/{file}"):
        with open(file, "r+b", closefd=not isinstance(file, int)) as opened:
            opened.truncate(opened.seek(0, os.SEEK_END) // 2)


def _linking(file: str | Path, name: str | Path) -> Callable[[], Any]:
    """Return a function that links the content as a server does, even if the file's name is gone by then."""
    content = Path(file).read_bytes()

    def link() -> None:
        with open(name, "xb") as linked:
            linked.write(content)

    return link
