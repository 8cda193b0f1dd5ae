"""Batches of a claim's messages that are handled together. Pure: the time is an argument.

Which messages may be in one batch depends on their order: those of the partition, those of some of its keys, or any.
A batch is complete by its size, by the age of its first message, or if no further message can be read before others
are finished.
"""

from __future__ import annotations

import zlib

import attrs

from sarameya.handling.options import Ordering
from sarameya.model import Message


@attrs.define(slots=True, eq=False)
class _Batch:
    due: float
    messages: list[Message]


class Batches:
    """Incomplete batches of one claim.

    Args:
        ordering: Which messages have to be handled one after the other.
        size: Number of messages of a batch.
        age: Seconds after which a batch is complete, whatever its size.
        at_once: Number of batches that are handled at the same time. As many are collected if messages are ordered by
            key: a key belongs to one of them.
    """

    def __init__(self, ordering: Ordering, size: int, age: float, at_once: int) -> None:
        self._size = size
        self._age = age
        self.at_once = at_once
        self._groups = at_once if ordering == "key" else 1
        self._batches: dict[int, _Batch] = {}

    def group_of(self, message: Message) -> int:
        """Return the group of a message. Without a key it may be in any; those of all others have to stay in order."""
        return zlib.crc32(message.key) % self._groups if message.key is not None else message.offset % self._groups

    def add(self, message: Message, now: float) -> list[Message] | None:
        """Add a message, in the order of the log. Return the batch that it completes."""
        group = self.group_of(message)
        batch = self._batches.get(group)
        if batch is None:
            batch = self._batches[group] = _Batch(now + self._age, [])
        batch.messages.append(message)
        if len(batch.messages) < self._size:
            return None
        del self._batches[group]
        return batch.messages

    @property
    def due(self) -> float | None:
        """Time at which the next batch is complete by its age; None if there is none."""
        return min((batch.due for batch in self._batches.values()), default=None)

    def pop_due(self, now: float) -> list[list[Message]]:
        """Return the batches that are complete by their age."""
        groups = [group for group, batch in self._batches.items() if batch.due <= now]
        return [self._batches.pop(group).messages for group in groups]

    def pop_largest(self) -> list[Message] | None:
        """Return the batch with most messages; None if there is none."""
        if not self._batches:
            return None
        return self._batches.pop(max(self._batches, key=lambda group: len(self._batches[group].messages))).messages
