"""Functions that one thread puts into the event loop of another thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Mailbox:
    """Functions that run in another thread, in the order in which they were put.

    The other thread is woken once for all functions that are put before it runs them. To wake it costs more than to run
    a function.

    Args:
        wake: Runs a function on the other thread's event loop, soon. Any thread may call it.
    """

    def __init__(self, wake: Callable[[Callable[[], None]], object]) -> None:
        self._wake = wake
        self._functions: deque[Callable[[], object]] = deque()
        self._is_woken = False

    def put(self, function: Callable[[], object]) -> None:
        """Run a function in the other thread."""
        self._functions.append(function)
        # The other thread resets the flag before it looks into the queue, so it finds this function.
        if not self._is_woken:
            self._is_woken = True
            self._wake(self._run)

    def _run(self) -> None:
        self._is_woken = False
        try:
            while self._functions:
                self._functions.popleft()()
        finally:
            if self._functions:  # one has raised an exception
                self._wake(self._run)
