"""What the group wants of a session that this has not got to yet: the latest assignment, and a rebalance that could not
be answered at once. Whoever hears of it puts it down; one task works it off."""

from __future__ import annotations

import trio

from sarameya.group.member import NewAssignment
from sarameya.protocol.membership_messages import PrepareRebalance


class Agenda:
    """One session's."""

    def __init__(self, first: NewAssignment) -> None:
        self.assignment: NewAssignment | None = first
        """The latest one, as long as it is not taken."""
        self.rebalance: PrepareRebalance | None = None
        """The one that is to be answered, by a join."""
        self._news = trio.Event()

    @property
    def is_empty(self) -> bool:
        return self.assignment is None and self.rebalance is None

    def assigned(self, new: NewAssignment) -> None:
        """Only the latest counts; and it says that the rebalance before it is over."""
        self.assignment, self.rebalance = new, None

    def take_assignment(self) -> NewAssignment | None:
        """It is being dealt with."""
        new, self.assignment = self.assignment, None
        return new

    @property
    def left_over(self) -> NewAssignment | None:
        """What the next session begins with. A rebalance that was not answered yet is answered by the next join: what
        was assigned before it is over."""
        return self.assignment if self.rebalance is None else None

    def wake(self) -> None:
        """There is something to look at: here, or that the session ends."""
        self._news.set()

    async def news(self) -> None:
        """Wait until there is something new to look at."""
        self._news = trio.Event()
        await self._news.wait()
