"""Turns between two kinds of commits to a table, of which each bears its own beside it, and not the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path


class Kind(Enum):
    SPARK = auto()
    ADOPTION = auto()


class CommitTurns:
    """Any number of one kind at a time. Used by threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._at_it = dict.fromkeys(Kind, 0)

    @contextmanager
    def turn(self, kind: Kind) -> Iterator[None]:
        """Wait until none of the other kind is at it, and be at it for the length of the block."""
        with self._changed:
            self._changed.wait_for(lambda: all(count == 0 for of, count in self._at_it.items() if of is not kind))
            self._at_it[kind] += 1
        try:
            yield
        finally:
            with self._changed:
                self._at_it[kind] -= 1
                self._changed.notify_all()


_turns: dict[Path, CommitTurns] = {}
_making = threading.Lock()


def turns_of(root: Path) -> CommitTurns:
    """Those of a table's directory, in this process."""
    with _making:
        return _turns.setdefault(root, CommitTurns())
