"""Counts of file system calls, for tests of how the cost of code grows with the table."""

from __future__ import annotations

import builtins
import io
import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest


class FileCalls:
    """A counter of calls that read or change names or open files, and of listed directory entries."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._counts: Counter[str] = Counter()
        for module in (builtins, io, os):
            self._count(monkeypatch, module, "open")
        for name in ("stat", "lstat", "link", "unlink", "rename", "replace", "mkdir", "rmdir"):
            self._count(monkeypatch, os, name)
        self._count_entries(monkeypatch)

    @property
    def total(self) -> int:
        """Number of calls and of listed entries together."""
        return self._counts.total()

    def of(self, work: Callable[[], object]) -> int:
        """Return the total for one call of `work`."""
        self._counts.clear()
        work()
        assert self.total, "nothing was counted: does Python call the file system in another way?"
        return self.total

    def _count(self, monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        real = getattr(module, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._counts[name] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(module, name, counted)

    def _count_entries(self, monkeypatch: pytest.MonkeyPatch) -> None:
        scandir, listdir = os.scandir, os.listdir

        def listed(*args: Any) -> list[str]:
            names = listdir(*args)
            self._counts["entries"] += len(names)
            return names

        monkeypatch.setattr(os, "scandir", lambda *args: _Entries(scandir(*args), self._counts))
        monkeypatch.setattr(os, "listdir", listed)


class _Entries:
    """An iterator over a directory's entries that counts them."""

    def __init__(self, entries: Any, counts: Counter[str]) -> None:
        self._entries = entries
        self._counts = counts

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self._entries.close()

    def __iter__(self) -> Iterator[Any]:
        for entry in self._entries:
            self._counts["entries"] += 1
            yield entry
