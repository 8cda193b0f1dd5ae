"""How long work shows itself: a bar on a terminal, plain lines elsewhere, records where the log is JSON, nothing when
asked to be quiet.

The bar is rich's; without rich (it comes with the extra `service`) a terminal gets the plain lines too. While there is
a bar, what is logged to the same terminal goes above it.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO, cast

import trio

from sarameya.service.log_lines import logs_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

LINE_INTERVAL = 2.0
"""Seconds between two plain lines."""
RECORD_INTERVAL = 30.0
"""Seconds between two records of a log for programs."""

logger = logging.getLogger("sarameya")


class Display(Protocol):
    """What shows the progress of one job."""

    def update(self, done: int, note: str = "") -> None:
        """`done` units are done, of the total if there is one; `note` says what else is worth a glance."""

    def say(self, line: str) -> None:
        """Print a line of its own, beside the progress."""


class Quiet:
    """Shows nothing."""

    def update(self, done: int, note: str = "") -> None:
        """Nothing."""

    def say(self, line: str) -> None:
        """Nothing."""


class Lines:
    """A plain line at most every `LINE_INTERVAL` seconds, the first `soon` and one when the job is done, or none before
    that time."""

    interval = LINE_INTERVAL

    def __init__(
        self, title: str, total: int | None, stream: TextIO, clock: Callable[[], float], *, soon: bool = True
    ) -> None:
        self._title = title
        self._total = total
        self._stream = stream
        self._clock = clock
        self._soon = soon
        self._next = clock() + self.interval * (not soon)
        self._last = -1
        self._unsaid: tuple[int, str] | None = None

    def update(self, done: int, note: str = "") -> None:
        now = self._clock()
        finished = self._soon and self._total is not None and done >= self._total
        if done == self._last:
            return
        if now < self._next and not finished:
            self._unsaid = done, note
            return
        self._next = now + self.interval
        self._tell(done, note)

    def end(self) -> None:
        """Tell how far it has come where nothing else tells that it has come to its end."""
        if self._unsaid is not None and self._total is None:
            self._tell(*self._unsaid)

    def _tell(self, done: int, note: str) -> None:
        self._last, self._unsaid = done, None
        of_all = "" if self._total is None else f" of {self._total:,} ({done / max(self._total, 1):.0%})"
        self._print(f"{self._title}: {done:,}{of_all}{note and ', '}{note}", done)

    def say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)

    def _print(self, line: str, done: int) -> None:
        self.say(line)


class Records(Lines):
    """Records of the log in place of lines, which would stand between those of JSON."""

    interval = RECORD_INTERVAL

    def say(self, line: str) -> None:
        logger.info("%s", line)

    def _print(self, line: str, done: int) -> None:
        logger.info("%s", line, extra={"fields": {"done": done, "total": self._total}})


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
    total: int | None,
    *,
    quiet: bool = False,
    as_lines: bool = False,
    stream: TextIO | None = None,
    clock: Callable[[], float] = trio.current_time,
) -> Iterator[Display]:
    """The display that fits `stream` (default: stderr), for a job of `total` units; None where nobody knows how many.

    `as_lines`: lines on a terminal, too, as where other processes write to it. Where the log is JSON they are records
    of it.
    """
    stream = sys.stderr if stream is None else stream
    if quiet:
        yield Quiet()
    elif logs_json():
        records = Records(title, total, stream, clock)
        yield records
        records.end()
    elif stream.isatty() and not as_lines and _has_rich():
        with _bar(stream) as progress, _logged_above(progress.console, stream):
            yield Bar(progress, progress.add_task(title, total=total, note=""))
    else:
        lines = Lines(title, total, stream, clock)
        yield lines
        lines.end()


class Steps(Protocol):
    """What shows a job of several steps, one after the other, from whatever thread."""

    def __call__(self, title: str, total: int | None = None) -> None:
        """The next step begins; `total`: of so many units."""

    def update(self, done: int) -> None:
        """So many units of the step are done."""


class QuietSteps:
    """Shows nothing."""

    def __call__(self, title: str, total: int | None = None) -> None:
        """Nothing."""

    def update(self, done: int) -> None:
        """Nothing."""


class LineSteps:
    """A line for each step, and others for how far it has come."""

    def __init__(self, stream: TextIO, clock: Callable[[], float], patience: float) -> None:
        self._stream = stream
        self._clock = clock
        self._from = clock() + patience
        self._lines: Lines | None = None

    def __call__(self, title: str, total: int | None = None) -> None:
        self._lines = Lines(title, total, self._stream, self._clock, soon=False)
        if self._clock() >= self._from:
            self._lines.say(title)

    def update(self, done: int) -> None:
        # What is done as soon as it has begun needs no line.
        if self._lines is not None and self._clock() >= self._from:
            self._lines.update(done)


class BarSteps:
    """One bar, which is each step's in its turn, and is gone in the end."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, note="")

    def __call__(self, title: str, total: int | None = None) -> None:
        self._progress.reset(self._task, total=total, description=title)
        self._progress.refresh()

    def update(self, done: int) -> None:
        self._progress.update(self._task, completed=done, refresh=True)


@contextmanager
def steps(
    *,
    quiet: bool = False,
    patience: float = 0.0,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Steps]:
    """What shows the steps of a job on `stream` (default: stderr): a bar on a terminal, lines elsewhere, of which none
    comes in the first `patience` seconds."""
    stream = sys.stderr if stream is None else stream
    if quiet:
        yield QuietSteps()
    elif stream.isatty() and _has_rich():
        with _bar(stream, transient=True) as progress, _logged_above(progress.console, stream):
            yield BarSteps(progress)
    else:
        yield LineSteps(stream, clock, patience)


def _has_rich() -> bool:
    from importlib.util import find_spec

    return find_spec("rich") is not None


def _bar(stream: TextIO, *, transient: bool = False) -> Progress:
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
        transient=transient,
        redirect_stdout=False,  # results may go to a file
    )


class _Above:
    """A stream for log handlers, whose lines go above the bar."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def write(self, text: str) -> None:
        # A handler writes a record and its line's end at once.
        self._console.print(text, end="", markup=False, highlight=False, soft_wrap=True)

    def flush(self) -> None:
        """Nothing is kept back."""


@contextmanager
def _logged_above(console: Console, stream: TextIO) -> Iterator[None]:
    """For the length of the block, have what would be logged to `stream` go above the bar."""
    handlers = [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is stream
    ]
    for handler in handlers:
        handler.setStream(cast(TextIO, _Above(console)))
    try:
        yield
    finally:
        for handler in handlers:
            handler.setStream(stream)
