"""Lanes: messages of a claim that are handled one after the other. Pure.

A lane holds messages that are handled one after the other, in the order of the log: all of the partition, those with
the same key, or a single message. Messages of different lanes are handled at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from sarameya.handling.options import Ordering
from sarameya.model import Message


class Lanes:
    """The lanes of one claim.

    Args:
        ordering: What makes a lane. A message without a key has no order by key: it is a lane of its own.
    """

    def __init__(self, ordering: Ordering) -> None:
        self._ordering = ordering
        self._waiting: dict[Hashable, deque[Message]] = {}

    def add(self, message: Message) -> Hashable | None:
        """Add a message, in the order of the log.

        Returns:
            The lane, if it has no other message: somebody has to work on it now. None if the message has to wait.
        """
        if self._ordering == "partition":
            lane: Hashable = ""
        elif self._ordering == "key" and message.key is not None:
            lane = message.key
        else:
            lane = message.offset
        if (waiting := self._waiting.get(lane)) is not None:
            waiting.append(message)
            return None
        self._waiting[lane] = deque([message])
        return lane

    def first(self, lane: Hashable) -> Message:
        """Return the message of this lane that is to be handled now."""
        return self._waiting[lane][0]

    def finish(self, lane: Hashable) -> bool:
        """Note that the lane's first message is handled. Return whether the lane has another one."""
        waiting = self._waiting[lane]
        waiting.popleft()
        if not waiting:
            del self._waiting[lane]
        return bool(waiting)
