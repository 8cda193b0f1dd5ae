"""Slots for calls of a handler: no more calls run at the same time than there are slots.

A task for a message is started once there is a slot for it. A task that waits for its slot would cost more CPU time
than the rest of the message's way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio


class Slots:
    """Slots that are given in the order of the requests.

    Args:
        count: Number of slots.
        within: Slots that these are a part of: a request needs one of both.
    """

    def __init__(self, count: int, within: Slots | None = None) -> None:
        self._free = count
        self._within = within
        self._requests: deque[Callable[[], bool]] = deque()

    def request(self, start: Callable[[], bool]) -> None:
        """Request a slot: for now, or for when one is released.

        Args:
            start: Called once there is a slot. Returns True if it takes the slot, which has to be released then. False
                if its claim has ended.
        """
        self._requests.append(start)
        self._give()

    async def acquire(self) -> None:
        """Wait for a slot, which has to be released then."""
        given, is_waiting = trio.Event(), True

        def start() -> bool:
            given.set()
            return is_waiting

        self.request(start)
        try:
            if not given.is_set():
                await given.wait()
        except trio.Cancelled:
            is_waiting = False
            raise

    def release(self) -> None:
        """Give a slot back. The next request gets it."""
        self._free += 1
        if self._within is not None:
            self._within.release()
        self._give()

    def _give(self) -> None:
        while self._free and self._requests:
            start = self._requests.popleft()
            if self._within is not None:
                self._free -= 1
                self._within.request(start)
            elif start():
                self._free -= 1
