"""How long a handler is fed before other tasks have their turn.

A checkpoint a message would cost more than all the rest of handing it out; none for as long as there is something at
hand would let one busy handler keep heartbeats and its neighbours waiting. So a turn lasts about `_SECONDS` of the
handler's time, and a thousand messages at most (or a batch, where batches are asked for). It is handed out in pieces,
and the clock is looked at after each: a handler that was quick and all at once is slow is noticed after `_PIECE`
messages, however long the turn might have been.
"""

from __future__ import annotations

import math

import trio

_SECONDS = 0.01
_MOST_MESSAGES = 1000
"""What a checkpoint costs is little beside so many."""
_PIECE = 125
"""The most that is handed out without a look at the clock."""
_FIRST = 8


class Turn:
    """The turns of one task that reads."""

    __slots__ = ("_began", "_handed", "_looked", "_piece", "left")

    def __init__(self) -> None:
        self._piece = self.left = _FIRST
        """`left`: the messages that it may still be given before `next`."""
        self._began = self._looked = -math.inf
        self._handed = 0

    async def next(self, now: float) -> None:
        """After a piece: the turn goes on, or others have theirs first. A checkpoint only where they have.

        The next piece is as long as the last, twice that at most, if that took the right time.
        """
        took, self._looked = now - self._looked, now
        taken = self._piece - self.left  # a batch is taken whole, however much is left
        self._handed += taken
        fits = int(taken * _SECONDS / took) if took > 0 else _PIECE
        self._piece = max(1, min(2 * self._piece, fits, _PIECE))
        if now - self._began < _SECONDS and self._handed + self._piece <= _MOST_MESSAGES:
            self.left = self._piece
            return
        await trio.lowlevel.checkpoint()
        self.begin()

    def begin(self) -> None:
        """The others have had theirs."""
        self._began = self._looked = trio.current_time()
        self.left, self._handed = self._piece, 0
