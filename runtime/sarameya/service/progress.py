"""How long work shows itself: a bar on a terminal, plain lines elsewhere, nothing when asked to be quiet.

The bar is rich's; without rich (it comes with the extra `demo`) a terminal gets the plain lines too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

import trio

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LINE_INTERVAL = 2.0
"""Seconds between two plain lines."""


class Display(Protocol):
    """What shows the progress of one job."""

    def update(self, done: int, note: str = "") -> None:
        """`done` units of the total are done; `note` says what else is worth a glance."""

    def say(self, line: str) -> None:
        """Print a line of its own, beside the progress."""


class Quiet:
    """Shows nothing."""

    def update(self, done: int, note: str = "") -> None:
        """Nothing."""

    def say(self, line: str) -> None:
        """Nothing."""


class Lines:
    """A plain line at most every `LINE_INTERVAL` seconds, and one when the job is done."""

    def __init__(self, title: str, total: int, stream: TextIO, clock: Callable[[], float]) -> None:
        self._title = title
        self._total = total
        self._stream = stream
        self._clock = clock
        self._next = clock()
        self._last = -1

    def update(self, done: int, note: str = "") -> None:
        now = self._clock()
        finished = done >= self._total
        if done == self._last or (now < self._next and not finished):
            return
        self._next = now + LINE_INTERVAL
        self._last = done
        self.say(f"{self._title}: {done:,} of {self._total:,} ({done / max(self._total, 1):.0%}){note and ', '}{note}")

    def say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class Bar:
    """A live bar of rich's, redrawn by `update` alone: no thread of its own."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def update(self, done: int, note: str = "") -> None:
        self._progress.update(self._task, completed=done, note=note, refresh=True)

    def say(self, line: str) -> None:
        self._progress.console.print(line, markup=False, highlight=False)


@contextmanager
def display(
    title: str,
    total: int,
    *,
    quiet: bool = False,
    stream: TextIO = sys.stderr,
    clock: Callable[[], float] = trio.current_time,
) -> Iterator[Display]:
    """The display that fits `stream`, for a job of `total` units."""
    if quiet:
        yield Quiet()
    elif stream.isatty() and _has_rich():
        with _bar(stream) as progress:
            yield Bar(progress, progress.add_task(title, total=total, note=""))
    else:
        yield Lines(title, total, stream, clock)


def _has_rich() -> bool:
    from importlib.util import find_spec

    return find_spec("rich") is not None


def _bar(stream: TextIO) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(file=stream),
        auto_refresh=False,
    )
