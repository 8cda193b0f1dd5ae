"""Partitions that a session is about to read: where each begins is found out beside what else moves.

Owns those tasks, and what the handler has answered so far: `start_offset` may take longer than the group rests, so an
assignment that leaves a partition here does not break it off. How a start is found is `starts.py`'s.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

import attrs
import trio

from sarameya.group.starts import Start
from sarameya.model import CommittedOffset, TopicPartition

Committed = Mapping[TopicPartition, CommittedOffset | None]
Answers = dict[TopicPartition, int | CommittedOffset | None]
Begin = Callable[[Mapping[TopicPartition, Start]], None]


@attrs.define(slots=True, eq=False)
class _Batch:
    """Partitions that were taken on together."""

    partitions: frozenset[TopicPartition]
    """Those that have not begun."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    ended: trio.Event = attrs.field(factory=trio.Event)


class Starting:
    """What has been taken on and has not begun."""

    def __init__(
        self,
        find: Callable[[Committed, Answers, Begin], Awaitable[None]],
        begin: Begin,
    ) -> None:
        """`find` finds out where partitions begin, puts what the handler says into the answers, and says what may begin
        as soon as it knows; `begin` is told."""
        self._find = find
        self._begin = begin
        self._batches: list[_Batch] = []
        self._answers: Answers = {}
        self._nursery: trio.Nursery | None = None

    def run_in(self, nursery: trio.Nursery) -> None:
        """The tasks are `nursery`'s from now on."""
        self._nursery = nursery

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """What is about to begin."""
        return frozenset().union(*(batch.partitions for batch in self._batches))

    def start(self, committed: Committed) -> None:
        """Find out where these begin, and begin."""
        assert self._nursery is not None, "no nursery to run in"
        batch = _Batch(frozenset(committed))
        self._batches.append(batch)
        self._nursery.start_soon(self._run, batch, committed)

    async def stop(self, leaving: Iterable[TopicPartition]) -> None:
        """These do not begin. Nor does, now, what was taken on with one of them: it has to be started anew."""
        gone = frozenset(leaving)
        stopped = [batch for batch in self._batches if batch.partitions & gone]
        for batch in stopped:
            batch.scope.cancel()
        for batch in stopped:
            await batch.ended.wait()
        for partition in gone:
            self._answers.pop(partition, None)

    def stop_all(self) -> None:
        """The session ends: nothing begins any more."""
        for batch in self._batches:
            batch.scope.cancel()

    async def _run(self, batch: _Batch, committed: Committed) -> None:
        try:
            with batch.scope:
                await self._find(committed, self._answers, partial(self._begins, batch))
        finally:
            self._batches.remove(batch)
            batch.ended.set()

    def _begins(self, batch: _Batch, starts: Mapping[TopicPartition, Start]) -> None:
        if not batch.scope.cancel_called:
            batch.partitions = batch.partitions.difference(starts)
            for partition in starts:
                self._answers.pop(partition, None)
            self._begin(starts)
