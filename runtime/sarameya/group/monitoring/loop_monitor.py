"""Detection of a blocked event loop: heartbeats are delayed, and no task can report the reason meanwhile.

A thread watches the loop, and takes the stack of the blocking call while it runs. It uses the real clock, since trio's
clock may be virtual: a virtual clock stops while a handler blocks.
"""

from __future__ import annotations

import logging
import os
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

import attrs
import trio

logger = logging.getLogger("sarameya")

_CHECKS = 4
"""Number of checks by the thread within the limit."""
_TRIO = os.path.dirname(trio.__file__)
_LIBRARIES = tuple(sysconfig.get_paths()[kind] for kind in ("stdlib", "purelib", "platlib"))
_NO_STACK = "no stack: the process was stopped, or a call held the interpreter's lock"


@attrs.frozen(slots=True)
class Blockage:
    """A time span in which the event loop was blocked."""

    seconds: float
    ended_at: float
    """On trio's clock."""
    where: str
    """FILE:LINE in FUNCTION of the innermost frame outside of libraries."""
    stack: str
    """As `traceback` formats it, outermost frame first."""


class LoopMonitor(trio.abc.Instrument):
    """Watches the event loop that it is created on.

    Args:
        limit: Seconds after which the loop counts as blocked.
        report: Called on the event loop with each blockage, once it is over. While the loop is still blocked, the
            thread logs the stack.
    """

    def __init__(self, limit: float, report: Callable[[Blockage], None]) -> None:
        self._limit = limit
        self._report = report
        self._token = trio.lowlevel.current_trio_token()
        self._loop_thread = threading.get_ident()
        self._stop = threading.Event()
        # Start of the current pass of the scheduler; None while the loop waits for I/O. The thread reads it.
        self._running_since: float | None = perf_counter()
        # The last blocked pass: its start, the blocking line, and the stack. The thread writes it.
        self._blocked_pass: tuple[float, str, str] = (-1.0, "", "")
        self.last: Blockage | None = None
        """The last blockage that has ended; None before the first."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch for the length of the block."""
        thread = threading.Thread(target=self._watch, name="sarameya loop monitor", daemon=True)
        trio.lowlevel.add_instrument(self)
        thread.start()
        try:
            yield
        finally:
            trio.lowlevel.remove_instrument(self)
            self._stop.set()
            thread.join()

    def after_io_wait(self, timeout: float) -> None:
        self._running_since = perf_counter()

    def before_io_wait(self, timeout: float) -> None:
        since, self._running_since = self._running_since, None
        if since is not None and (seconds := perf_counter() - since) >= self._limit:
            blocked_since, where, stack = self._blocked_pass
            if blocked_since != since:
                where, stack = _NO_STACK, ""
            # An instrument must not wake tasks between two passes, so a task reports the blockage.
            self._token.run_sync_soon(self._on_blockage_ended, Blockage(seconds, trio.current_time(), where, stack))

    def _on_blockage_ended(self, blockage: Blockage) -> None:
        self.last = blockage
        self._report(blockage)

    def _watch(self) -> None:
        until_check = self._limit / _CHECKS
        while not self._stop.wait(until_check):
            until_check, since = self._limit / _CHECKS, self._running_since
            if since is None or since == self._blocked_pass[0]:
                continue
            left = since + self._limit - perf_counter()
            if left > 0:  # check again right at the limit: the blockage may end soon after it
                until_check = min(until_check, left)
                continue
            frames = _frames_of(self._loop_thread)
            where, stack = _where(frames), "".join(frames.format())
            self._blocked_pass = (since, where, stack)
            logger.error(
                "the event loop is blocked, for %.1f s so far: no heartbeat can be sent. Its stack:\n%s",
                perf_counter() - since,
                stack.rstrip(),
            )


def _frames_of(thread: int) -> traceback.StackSummary:
    """Return the frames of the task that a thread's event loop runs, outermost first."""
    frames = traceback.StackSummary.extract(traceback.walk_stack(sys._current_frames().get(thread)))
    frames.reverse()
    inside = [index for index, frame in enumerate(frames) if frame.filename.startswith(_TRIO)]
    return traceback.StackSummary.from_list(frames[inside[-1] + 1 if inside else 0 :] or frames)


def _where(frames: traceback.StackSummary) -> str:
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    frame = (own or frames)[-1]
    return f"{frame.filename}:{frame.lineno} in {frame.name}"
