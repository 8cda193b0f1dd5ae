"""Kafka's purgatory: operations that wait for an event or a deadline, whichever comes first. Pure: no clock.

A long poll waits for bytes, a join for the other members, a session for the next heartbeat. Each is a
`DelayedOperation`, watched under one or more keys. A key stands for a part of the state, such as a partition; code that
changes this part calls `check_and_complete(key, now)`. An operation completes exactly once. Every call takes O(log n)
for each operation that it adds or completes. No reference to a completed operation is kept, not even in the heap of
deadlines.

The caller calls `expire(now)` at `next_deadline()`. Operations may use the purgatory again while they complete.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from itertools import count

import attrs


class DelayedOperation(ABC):
    """An operation that waits until `deadline`, on the caller's clock, or until it can complete."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline

    @abstractmethod
    def can_complete(self) -> bool:
        """Return True if the awaited event has happened. Called at the start, and when one of its keys is checked."""

    @abstractmethod
    def on_complete(self, now: float) -> None:
        """End the wait. Called exactly once, after the event or at the deadline."""

    def on_expire(self, now: float) -> None:
        """Handle the deadline. Called after `on_complete` if the deadline ended the wait."""


@attrs.define(slots=True, order=False, eq=False)
class _Entry:
    """An entry of the heap. `operation` becomes None at its completion, so that the heap does not keep it alive."""

    operation: DelayedOperation | None
    keys: frozenset[Hashable]


class Purgatory:
    """Waiting operations by key and by deadline."""

    def __init__(self) -> None:
        self._waiting: dict[DelayedOperation, _Entry] = {}
        self._watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._heap: list[tuple[float, int, _Entry]] = []
        self._order = count()

    def __len__(self) -> int:
        """Return the number of waiting operations."""
        return len(self._waiting)

    def watched(self, key: Hashable) -> int:
        """Return the number of operations that wait for this key."""
        return len(self._watchers.get(key, ()))

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Iterable[Hashable], now: float) -> bool:
        """Complete the operation if it can complete or its deadline has passed; else let it wait under `keys`.

        Returns:
            True if the operation completed.
        """
        if operation.can_complete():
            operation.on_complete(now)
            return True
        if operation.deadline <= now:
            operation.on_complete(now)
            operation.on_expire(now)
            return True
        entry = _Entry(operation, frozenset(keys))
        self._waiting[operation] = entry
        for key in entry.keys:
            self._watchers.setdefault(key, {})[operation] = None
        heapq.heappush(self._heap, (operation.deadline, next(self._order), entry))
        return False

    def check_and_complete(self, key: Hashable, now: float) -> int:
        """Complete the operations under `key` that can complete. Return their number."""
        completed = 0
        for operation in tuple(self._watchers.get(key, ())):
            # An earlier operation may have completed or cancelled this one.
            if operation in self._waiting and operation.can_complete():
                self._forget(operation)
                operation.on_complete(now)
                completed += 1
        return completed

    def cancel(self, operation: DelayedOperation) -> bool:
        """Stop an operation's wait without completing it. Return False if it does not wait here."""
        if operation not in self._waiting:
            return False
        self._forget(operation)
        return True

    def next_deadline(self) -> float | None:
        """Return the earliest deadline of all waiting operations; None if there are none."""
        while self._heap and self._heap[0][2].operation is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def expire_next(self, now: float) -> bool:
        """Complete the operation with the earliest deadline, if that is due. Return False if none is due."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return False
        operation = heapq.heappop(self._heap)[2].operation
        assert operation is not None
        self._forget(operation)
        operation.on_complete(now)
        operation.on_expire(now)
        return True

    def expire(self, now: float) -> int:
        """Complete every operation whose deadline has passed, in the order of the deadlines. Return their number."""
        expired = 0
        while self.expire_next(now):
            expired += 1
        return expired

    def _forget(self, operation: DelayedOperation) -> None:
        entry = self._waiting.pop(operation)
        entry.operation = None
        for key in entry.keys:
            watchers = self._watchers[key]
            del watchers[operation]
            if not watchers:
                del self._watchers[key]
        self._compact()

    def _compact(self) -> None:
        # The heap is rebuilt only when most entries are empty, so that the cost is O(1) for each operation.
        if len(self._heap) > 2 * len(self._waiting) + 16:
            self._heap = [item for item in self._heap if item[2].operation is not None]
            heapq.heapify(self._heap)
