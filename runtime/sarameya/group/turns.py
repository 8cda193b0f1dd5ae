"""How long a handler is fed before other tasks have their turn.

A checkpoint a message would cost more than all the rest of handing it out; none for as long as there is something at
hand would let one busy handler keep heartbeats and its neighbours waiting. So there is one in so many messages, as many
as the handler gets through in about `_SECONDS`.
"""

from __future__ import annotations

import math

import trio

_SECONDS = 0.01
_MOST_MESSAGES = 1000
"""What a checkpoint costs is little beside so many."""
_FIRST = 8


class Turn:
    """The turns of one task that reads."""

    __slots__ = ("_began", "_length", "left")

    def __init__(self) -> None:
        self._length = self.left = _FIRST
        """`left`: the messages that it may still be given before `next`."""
        self._began = -math.inf

    async def next(self) -> None:
        """Let others have their turn. The next one is as long as the last, if that took the right time."""
        took = trio.current_time() - self._began
        await trio.lowlevel.checkpoint()
        fits = int(self._length * _SECONDS / took) if took > 0 else _MOST_MESSAGES
        self._length = max(1, min(2 * self._length, fits, _MOST_MESSAGES))
        self.begin()

    def begin(self) -> None:
        """The others have had theirs."""
        self.left, self._began = self._length, trio.current_time()
