"""Partitions that a session is dealt, on their way to their claims: the group's offsets, the handler told, where each
begins (`starting.py`), and the claims. Owns what is on its way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import trio

from sarameya.errors import SarameyaError
from sarameya.group.claim import Claim
from sarameya.group.offset_manager import OffsetManager
from sarameya.group.source import Source, Surroundings
from sarameya.group.starting import Answers, Begin, Committed, Starting
from sarameya.group.starts import Start
from sarameya.model import TopicPartition
from sarameya.observe import ClaimStarted


class TakingOn:
    """What one session takes on."""

    def __init__(
        self,
        runtime: Surroundings,
        source: Source,
        offsets: OffsetManager,
        *,
        tell: Callable[[Sequence[TopicPartition]], Awaitable[None]],
        find: Callable[[Committed, Answers, Begin], Awaitable[None]],
        start: Callable[[Iterable[Claim]], None],
        on_failure: Callable[[SarameyaError], None],
    ) -> None:
        """`tell` tells the handler, `find` finds out where partitions begin, as for `Starting`, `start` takes over what
        begins; `on_failure` is told why the group's offsets cannot be had: the session has to end for it."""
        self._runtime = runtime
        self._source = source
        self._offsets = offsets
        self._tell = tell
        self._start = start
        self._on_failure = on_failure
        self._starting = Starting(find, self._begin)
        self._fetching = trio.CancelScope()
        self._has_ended = False

    def run_in(self, nursery: trio.Nursery) -> None:
        """The tasks are `nursery`'s from now on."""
        self._starting.run_in(nursery)

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """What is about to begin."""
        return self._starting.partitions

    async def take_on(self, partitions: Sequence[TopicPartition]) -> None:
        """Begin to read these; returns when the handler was told of them, or after `make_way`."""
        committed: Committed | None = None
        with trio.CancelScope() as self._fetching:
            await self._source.logs.reach(partitions)
            try:
                found = await self._offsets.fetch(partitions)
                # A mark that is still to be committed counts: of a start that was resolved, and broken off before
                # its commit was answered. Resolved anew, `newest` would skip what has come since.
                committed = {partition: self._offsets.ledger.marked(partition) for partition in found}
            except SarameyaError as error:
                self._on_failure(error)
        if committed is None or self._has_ended:
            return
        await self._tell(partitions)
        if not self._has_ended:
            self._starting.start(committed)

    def make_way(self) -> None:
        """An assignment that comes before the offsets of what the one before it brought are had goes first."""
        self._fetching.cancel()

    async def stop(self, leaving: Iterable[TopicPartition]) -> None:
        """These do not begin."""
        await self._starting.stop(leaving)

    def end(self) -> None:
        """The session ends: nothing begins any more."""
        self._has_ended = True
        self._fetching.cancel()
        self._starting.stop_all()

    def _begin(self, starts: Mapping[TopicPartition, Start]) -> None:
        if self._has_ended:
            return
        feeds, logs = self._source.feeds, self._source.logs
        consumers = [
            feeds.feed(tp, start.offset, start.leader_epoch, start.told_in, logs.topic_id(tp.topic))
            for tp, start in starts.items()
        ]
        for partition, start in starts.items():
            self._runtime.observer(ClaimStarted(partition, start.offset, start.why))
        runtime = self._runtime
        intercept, handler_time = runtime.interceptors.consume, runtime.handler_time
        self._start(Claim(consumer, runtime.config, intercept, handler_time) for consumer in consumers)
        feeds.read(consumers)
