"""Answers that are ready but not handed out yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from sarameya.embedded.groups.model.messages import A, Reply


class PendingReplies:
    """Holds answers back until the change they tell of is complete.

    A reply may call the coordinator again, so none may be called while a group is between two states.
    """

    def __init__(self) -> None:
        self._ready: deque[Callable[[], None]] = deque()

    def put(self, reply: Reply[A], answer: A) -> None:
        self._ready.append(partial(reply, answer))

    def deliver(self) -> None:
        """Call the replies, in the order in which the answers became ready."""
        while self._ready:
            self._ready.popleft()()
