"""Progress of long work: a bar on a terminal, plain lines elsewhere, log records if the log is JSON, nothing if quiet.

The bar is rich's. Without rich (the extra `service` brings it) a terminal gets plain lines, too. Log lines to the same
terminal appear above the bar.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO, cast

import trio

from sarameya.service.output.log_format import logs_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

LINE_INTERVAL = 2.0
"""Seconds between two plain lines."""
RECORD_INTERVAL = 30.0
"""Seconds between two log records with progress."""

logger = logging.getLogger("sarameya")


class Display(Protocol):
    """The progress of one job."""

    def update(self, done: int, note: str = "") -> None:
        """Show the progress.

        Args:
            done: Units that are done, of the total if there is one.
            note: A short text beside the numbers.
        """

    def print_line(self, line: str) -> None:
        """Print a separate line beside the progress."""


class QuietDisplay:
    """A display that shows nothing."""

    def update(self, done: int, note: str = "") -> None:
        """Do nothing."""

    def print_line(self, line: str) -> None:
        """Do nothing."""


class LineDisplay:
    """A plain line at most every `LINE_INTERVAL` seconds.

    With `soon` the first line appears at once, and one more when the job is done. Without it no line appears before the
    first interval has passed.
    """

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
        self._unprinted: tuple[int, str] | None = None

    def update(self, done: int, note: str = "") -> None:
        """Print a line if it is time for one."""
        now = self._clock()
        finished = self._soon and self._total is not None and done >= self._total
        if done == self._last:
            return
        if now < self._next and not finished:
            self._unprinted = done, note
            return
        self._next = now + self.interval
        self._print_progress(done, note)

    def end(self) -> None:
        """Print the last progress if it is not printed yet and the total is unknown."""
        if self._unprinted is not None and self._total is None:
            self._print_progress(*self._unprinted)

    def _print_progress(self, done: int, note: str) -> None:
        self._last, self._unprinted = done, None
        of_all = "" if self._total is None else f" of {self._total:,} ({done / max(self._total, 1):.0%})"
        self._print(f"{self._title}: {done:,}{of_all}{note and ', '}{note}", done)

    def print_line(self, line: str) -> None:
        """Print a separate line."""
        print(line, file=self._stream, flush=True)

    def _print(self, line: str, done: int) -> None:
        self.print_line(line)


class LogDisplay(LineDisplay):
    """Log records in place of lines, which would break a log of JSON."""

    interval = RECORD_INTERVAL

    def print_line(self, line: str) -> None:
        """Log a separate line."""
        logger.info("%s", line)

    def _print(self, line: str, done: int) -> None:
        logger.info("%s", line, extra={"fields": {"done": done, "total": self._total}})


class BarDisplay:
    """A live bar from rich. Only `update` redraws it, so that it needs no thread."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def update(self, done: int, note: str = "") -> None:
        """Redraw the bar."""
        self._progress.update(self._task, completed=done, note=note, refresh=True)

    def print_line(self, line: str) -> None:
        """Print a line above the bar."""
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
    """Yield the display that fits the stream.

    Args:
        title: The job's name.
        total: The units of the job; None if unknown.
        quiet: Show nothing.
        as_lines: Print lines on a terminal, too, for example if other processes write to it.
        stream: The stream; stderr by default. A log of JSON gets records in any case.
        clock: Returns the current time in seconds.
    """
    stream = sys.stderr if stream is None else stream
    if quiet:
        yield QuietDisplay()
    elif logs_json():
        records = LogDisplay(title, total, stream, clock)
        yield records
        records.end()
    elif stream.isatty() and not as_lines and _has_rich():
        with _bar(stream) as progress, _logged_above(progress.console, stream):
            yield BarDisplay(progress, progress.add_task(title, total=total, note=""))
    else:
        lines = LineDisplay(title, total, stream, clock)
        yield lines
        lines.end()


class Steps(Protocol):
    """The progress of a job with several steps, one after the other. May be called from any thread."""

    def __call__(self, title: str, total: int | None = None) -> None:
        """Start the next step, of `total` units if they are known."""

    def update(self, done: int) -> None:
        """Show that `done` units of the step are done."""


class QuietSteps:
    """Steps that show nothing."""

    def __call__(self, title: str, total: int | None = None) -> None:
        """Do nothing."""

    def update(self, done: int) -> None:
        """Do nothing."""


class LineSteps:
    """A line for each step, and lines for the progress of long steps."""

    def __init__(self, stream: TextIO, clock: Callable[[], float], patience: float) -> None:
        self._stream = stream
        self._clock = clock
        self._lines_from = clock() + patience
        self._lines: LineDisplay | None = None

    def __call__(self, title: str, total: int | None = None) -> None:
        self._lines = LineDisplay(title, total, self._stream, self._clock, soon=False)
        if self._clock() >= self._lines_from:
            self._lines.print_line(title)

    def update(self, done: int) -> None:
        # A step that ends at once needs no line.
        if self._lines is not None and self._clock() >= self._lines_from:
            self._lines.update(done)


class BarSteps:
    """A single bar for all steps. It disappears at the end."""

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
    """Yield the display for a job of several steps: a bar on a terminal, lines elsewhere.

    Args:
        quiet: Show nothing.
        patience: Seconds before the first line.
        stream: The stream; stderr by default.
        clock: Returns the current time in seconds.
    """
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


class _AboveBar:
    """A stream for log handlers, whose lines appear above the bar."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def write(self, text: str) -> None:
        # A log handler writes a record together with its line break.
        self._console.print(text, end="", markup=False, highlight=False, soft_wrap=True)

    def flush(self) -> None:
        """Do nothing: no text is buffered."""


@contextmanager
def _logged_above(console: Console, stream: TextIO) -> Iterator[None]:
    """Print log lines for `stream` above the bar, for the length of the block."""
    handlers = [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is stream
    ]
    for handler in handlers:
        handler.setStream(cast(TextIO, _AboveBar(console)))
    try:
        yield
    finally:
        for handler in handlers:
            handler.setStream(stream)
