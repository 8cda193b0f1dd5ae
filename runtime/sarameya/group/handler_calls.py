"""What a handler is told besides its claims: set up once, partitions that come and go, cleaned up at the end.

Owns what it was told of, and how long each call may take: beside claims a grace, as they have, once something is being
given up; afterwards, for what has been given up, most of the time until the deadline. What a call raises, and that its
time was over, is told to the session, which ends for it.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import trio

from sarameya.group.claims import run_reader
from sarameya.group.deadline import Deadline, Tasks, most_of
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.group.handler_methods import awaited
from sarameya.group.session import Session
from sarameya.model import TopicPartition


class HandlerCalls:
    """The calls of one session's handler."""

    def __init__(
        self,
        handler: ConsumerGroupHandler,
        session: Session,
        deadline: Deadline,
        *,
        on_failure: Callable[[str, Exception], None],
        on_late: Callable[[str], None],
        on_cut_off: Callable[[str], None],
    ) -> None:
        """`on_failure` is told which call raised what, `on_late` which one outlived the deadline, and `on_cut_off`
        which one had to make way for a rebalance.
        """
        self.told: frozenset[TopicPartition] = frozenset()
        """What the handler was told of, and not that it is gone."""
        self.needs_cleanup = False
        self._handler = handler
        self._session = session
        self._deadline = deadline
        self._on_failure = on_failure
        self._on_late = on_late
        self._on_cut_off = on_cut_off
        self._running: dict[trio.lowlevel.Task, str] = {}
        self._grace_ends = math.inf
        self._in_grace = trio.CancelScope()
        self._revoking = trio.CancelScope()

    @property
    def tasks(self) -> Tasks:
        """The tasks that are in a call now, by its name."""
        return {name: task for task, name in self._running.items()}

    # -- how long --------------------------------------------------------------------------------------

    def hasten(self, grace_ends: float) -> None:
        """Something is being given up: until when calls may go on that go on beside claims. Only ever earlier."""
        self._grace_ends = min(self._grace_ends, grace_ends)
        self._in_grace.deadline = min(self._in_grace.deadline, self._grace_ends)
        self._revoking.deadline = min(self._revoking.deadline, most_of(self._deadline.at))

    def lift(self) -> None:
        """All that had to be given up has been."""
        self._grace_ends = math.inf

    # -- the calls -------------------------------------------------------------------------------------

    async def setup(self) -> None:
        self.needs_cleanup = True
        await self._in_time("setup", awaited(self._handler.setup, self._session))

    async def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Tell what the handler was not told of yet."""
        untold = [partition for partition in partitions if partition not in self.told]
        if untold:
            self.told |= frozenset(untold)
            await self._in_time(
                "partitions_assigned", awaited(self._handler.partitions_assigned, self._session, untold)
            )

    async def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """Tell that these have been given up, while the session goes on. Cancelling `consume()` ends it, which leaves
        the call less time, and not none."""
        told = sorted(partitions)
        self.told -= frozenset(told)
        self._revoking = trio.CancelScope(shield=True, deadline=most_of(self._deadline.at))
        await self._by("partitions_revoked", awaited(self._handler.partitions_revoked, self._session, told))

    async def finish(self, *, lost: bool, deadline: float) -> None:
        """At the session's end: all that the handler was told of is gone; clean up. Cleanup needs what is left of the
        time until `deadline`, which the caller's scope keeps."""
        if told := sorted(self.told):
            name, tell = "partitions_revoked", self._handler.partitions_revoked
            if lost:
                name, tell = "partitions_lost", self._handler.partitions_lost
            self._revoking = trio.CancelScope(deadline=most_of(deadline))
            await self._by(name, awaited(tell, self._session, told))
        if self.needs_cleanup:
            await self.call("cleanup", awaited(self._handler.cleanup, self._session))
            self.needs_cleanup = False

    async def call(self, name: str, work: Awaitable[None], scope: trio.CancelScope | None = None) -> None:
        """A part of the handler that is no claim, in its scope; what it raises, `on_failure` is told."""
        task = trio.lowlevel.current_task()
        self._running[task] = name
        try:
            await run_reader(work, scope or trio.CancelScope(), partial(self._on_failure, name))
        finally:
            del self._running[task]

    async def _by(self, name: str, work: Awaitable[None]) -> None:
        """By most of the deadline, which may come nearer meanwhile."""
        scope = self._revoking
        await self.call(name, work, scope)
        if scope.cancelled_caught:
            self._on_late(name)

    async def _in_time(self, name: str, work: Awaitable[None]) -> None:
        scope = self._in_grace = trio.CancelScope(deadline=self._grace_ends)
        await self.call(name, work, scope)
        if scope.cancelled_caught:
            self._on_cut_off(name)
