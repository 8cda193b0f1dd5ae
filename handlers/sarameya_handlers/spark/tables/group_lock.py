"""A lock that any number of threads of one group hold together, while all other groups wait."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class GroupLock:
    """A fair lock: threads get it in the order of their calls, so no group can block another for ever."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._group: Hashable = None
        self._holders = 0

    @contextmanager
    def held(self, group: Hashable) -> Iterator[None]:
        """Hold the lock inside a block, together with other threads of the same group."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            self._changed.wait_for(lambda: self._waiting[0] is ticket and (self._holders == 0 or self._group == group))
            self._waiting.popleft()
            self._group = group
            self._holders += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._holders -= 1
                self._changed.notify_all()
