"""Results that are ready but not delivered yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from sarameya.embedded.groups.model.messages import A, Reply


class PendingReplies:
    """Holds results back until the change that they report is complete.

    A reply may call the coordinator again, so no reply may be called while a change of a group is incomplete.
    """

    def __init__(self) -> None:
        self._ready: deque[Callable[[], None]] = deque()

    def put(self, reply: Reply[A], result: A) -> None:
        """Queue `result` for `reply`."""
        self._ready.append(partial(reply, result))

    def deliver(self) -> None:
        """Call the replies in the order in which their results became ready."""
        while self._ready:
            self._ready.popleft()()
