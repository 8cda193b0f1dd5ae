"""A lock that several threads hold together, or one alone. (On PyPI: readerwriterlock, of 2021.)"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class SharedLock:
    """Who comes first is served first: neither kind can keep the other waiting for ever."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._sharing = 0
        self._is_alone = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold it beside others who share it."""
        with self._served(lambda: not self._is_alone):
            self._sharing += 1
        try:
            yield
        finally:
            with self._changed:
                self._sharing -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._served(lambda: not self._is_alone and self._sharing == 0):
            self._is_alone = True
        try:
            yield
        finally:
            with self._changed:
                self._is_alone = False
                self._changed.notify_all()

    @contextmanager
    def _served(self, is_free: Callable[[], bool]) -> Iterator[None]:
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            self._changed.wait_for(lambda: self._waiting[0] is ticket and is_free())
            self._waiting.popleft()
            yield
            self._changed.notify_all()
