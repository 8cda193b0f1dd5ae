"""Slots for calls of a handler: no more calls run at the same time than there are slots.

A task for messages is started once it has a slot: a task that waits for its slot would cost more CPU time than the rest
of a message's way. A task that has finished keeps its slot for the next messages of its claim, since another task would
start a pass of the event loop later. It hands the slot over if another claim has none, or has at least two fewer.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable

import trio


class Slots:
    """All slots of a handler.

    Args:
        count: Number of slots.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = count
        # Claims with requests that may have another slot: those without any, which come first, and the others.
        self._without: OrderedDict[ClaimSlots, None] = OrderedDict()
        self._others: OrderedDict[ClaimSlots, None] = OrderedDict()

    def _give(self) -> None:
        while self._free and (queue := self._without or self._others):
            claim, _ = queue.popitem(last=False)
            claim._take()


class ClaimSlots:
    """The slots of one claim, and its requests for more.

    Args:
        slots: All slots.
        limit: Maximum number of slots of the claim.
        start: Starts a task for a lane. The task has a slot.
    """

    def __init__(self, slots: Slots, limit: int, start: Callable[[Hashable], None]) -> None:
        self._slots = slots
        self._limit = limit
        self._start = start
        self._held = 0
        self._lanes: deque[Hashable] = deque()
        # Tasks that wait for a slot. They come before lanes.
        self._tasks: OrderedDict[trio.Event, None] = OrderedDict()
        self._is_closed = False

    def request(self, lane: Hashable) -> None:
        """Start a task for a lane once there is a slot for it, maybe now."""
        if not self._is_closed:
            self._lanes.append(lane)
            self._queue()
            self._slots._give()

    def close(self) -> None:
        """Drop all requests for lanes: no task is started any more."""
        self._is_closed = True
        self._lanes.clear()

    async def acquire(self) -> None:
        """Wait for a slot."""
        given = trio.Event()
        self._tasks[given] = None
        self._queue()
        self._slots._give()
        try:
            if not given.is_set():
                await given.wait()
        except trio.Cancelled:
            if given.is_set():  # given after the cancellation, and before this task has run
                self.release()
            raise
        finally:
            self._tasks.pop(given, None)

    def release(self) -> None:
        """Give a slot back."""
        self._held -= 1
        self._slots._free += 1
        self._queue()
        self._slots._give()

    def next(self) -> Hashable | None:
        """Return the next lane for a task that has a slot. Give the slot back and return None if there is none."""
        if self._lanes and not self._tasks and not self._has_precedence():
            return self._lanes.popleft()
        self.release()
        return None

    def _has_precedence(self) -> bool:
        """Return whether the claim that comes next should have a slot of this one."""
        if self._slots._without:
            return True
        others = self._slots._others
        if not others:
            return False
        first = next(iter(others))
        if first._held + 1 < self._held:
            return True
        others.move_to_end(first)  # the next call looks at another one
        return False

    def _queue(self) -> None:
        """Queue for a slot, if there are requests."""
        if (self._lanes or self._tasks) and self._held < self._limit:
            if self._held:
                self._slots._others[self] = None
            else:
                self._slots._others.pop(self, None)
                self._slots._without[self] = None

    def _take(self) -> None:
        """Take a free slot for the first request, if there still is one."""
        if not (self._lanes or self._tasks):
            return
        self._held += 1
        self._slots._free -= 1
        if self._tasks:
            given, _ = self._tasks.popitem(last=False)
            given.set()
        else:
            self._start(self._lanes.popleft())
        self._queue()


class Slot:
    """The slot of one task, which has it at first.

    Args:
        slots: The slots of the task's claim.
    """

    __slots__ = ("_slots", "is_held")

    def __init__(self, slots: ClaimSlots) -> None:
        self._slots = slots
        self.is_held = True

    async def acquire(self) -> None:
        """Wait for a slot, if the task has none."""
        if not self.is_held:
            await self._slots.acquire()
            self.is_held = True

    def release(self) -> None:
        """Give the slot back, if the task has one."""
        if self.is_held:
            self.is_held = False
            self._slots.release()

    def next(self) -> Hashable | None:
        """Return the lane that the task is to handle next with its slot; None if it has none any more."""
        lane = self._slots.next() if self.is_held else None
        self.is_held = lane is not None
        return lane
