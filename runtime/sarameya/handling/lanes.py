"""Lanes: messages of a claim that are handled one after the other. Pure.

A lane holds batches that are handled one after the other, in the order of the log: all of the partition, those with
the same key, or a single one. Batches of different lanes are handled at the same time. A batch of one message is the
usual case.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence

from sarameya.handling.options import Ordering
from sarameya.model import Message

Batch = Sequence[Message]


class Lanes:
    """The lanes of one claim.

    Args:
        ordering: What makes a lane. A message without a key has no order by key: it is a lane of its own.
        group_of: Returns what has to be in order for `key`; the key itself, unless batches have several keys.
    """

    def __init__(self, ordering: Ordering, group_of: Callable[[Message], Hashable] | None = None) -> None:
        self._ordering = ordering
        self._group_of = group_of
        self._waiting: dict[Hashable, deque[Batch]] = {}

    def add(self, batch: Batch) -> Hashable | None:
        """Add a batch, in the order of the log.

        Returns:
            The lane, if it has no other batch: somebody has to work on it now. None if the batch has to wait.
        """
        first = batch[0]
        if self._ordering == "partition":
            lane: Hashable = ""
        elif self._ordering == "key" and self._group_of is not None:
            lane = self._group_of(first)
        elif self._ordering == "key" and first.key is not None:
            lane = first.key
        else:
            lane = first.offset
        if (waiting := self._waiting.get(lane)) is not None:
            waiting.append(batch)
            return None
        self._waiting[lane] = deque([batch])
        return lane

    @property
    def count(self) -> int:
        """Number of lanes that have batches."""
        return len(self._waiting)

    def first(self, lane: Hashable) -> Batch:
        """Return the batch of this lane that is to be handled now."""
        return self._waiting[lane][0]

    def finish(self, lane: Hashable) -> bool:
        """Note that the lane's first batch is handled. Return whether the lane has another one."""
        waiting = self._waiting[lane]
        waiting.popleft()
        if not waiting:
            del self._waiting[lane]
        return bool(waiting)
