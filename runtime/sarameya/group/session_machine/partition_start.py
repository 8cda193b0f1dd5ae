"""The start of a partition, step by step.

    committed offset    `fetch_committed`
    start offset        the first of: `handler.start_offset`, the committed offset, the oldest message if the partition
                        was added while the group was running, `Config.offset_initial` (`choose_start`)
    lookup              if the result is a policy; the offset found is committed at once (`_on_found`)
    claim               its reader and its fetch start (`_claim`)

Partitions that are assigned together are a batch. Each batch starts in its own task, and each partition as soon as its
offset is known: no partition waits for the leader of another. The result of `start_offset` is kept until the partition
has started or is revoked: the call may take longer than the time between two rebalances, and would be repeated.

Rules that are easily broken:

- A start offset that was looked up is committed at once. Otherwise a rejoin before the first mark would look up
  `newest` again, and skip the messages in between. Tests:
  `tests/group/test_session.py::test_resolved_newest_start_is_committed_before_any_mark`,
  `tests/group/test_late_responses.py::test_looked_up_start_is_kept_though_its_commit_got_no_response`.
- A failed fetch of committed offsets is retried. It never counts as "nothing committed". Test:
  `tests/group/test_offset_fetch.py::test_lost_offset_fetch_is_retried`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import attrs
import trio

from sarameya.errors import HandlerError
from sarameya.group.claim import Claim
from sarameya.group.delivery.time_slices import TimeSlice
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.group.handler_methods import awaited
from sarameya.group.offsets.offset_manager import OffsetManager
from sarameya.group.offsets.start_offset import Start, check_policies, choose_start
from sarameya.group.session_machine.messages import CommittedOffsets
from sarameya.group.session_machine.readers import Readers
from sarameya.group.source import SessionRuntime, Source
from sarameya.model import NO_LEADER_EPOCH, CommittedOffset, TopicPartition, is_offset
from sarameya.net.log_offsets import LogOffset
from sarameya.observe import ClaimStarted
from sarameya.offset_policy import OffsetPolicy, describe_policy
from sarameya.protocol.subscription import Growth


@attrs.define(slots=True, eq=False)
class StartBatch:
    """Partitions that start together.

    Attributes:
        committed: The group's committed offset of each partition.
        waiting: The partitions that have not started yet.
        scope: Cancels the start.
        ended: Set once the batch's task has ended.
    """

    committed: CommittedOffsets
    waiting: frozenset[TopicPartition]
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    ended: trio.Event = attrs.field(factory=trio.Event)


class PartitionStarter:
    """Start of the partitions of one session."""

    def __init__(
        self,
        runtime: SessionRuntime,
        source: Source,
        offsets: OffsetManager,
        handler: ConsumerGroupHandler,
        readers: Readers,
        growth: Growth,
    ) -> None:
        self._runtime = runtime
        self._source = source
        self._offsets = offsets
        self._handler = handler
        self._readers = readers
        self._growth = growth
        self._fetching = trio.CancelScope()
        self._batches: list[StartBatch] = []
        self._cancelled: list[StartBatch] = []
        # Results of the handler's `start_offset`.
        self._answers: dict[TopicPartition, int | CommittedOffset | None] = {}
        self._has_ended = False

    # -- committed offset -------------------------------------------------------------------------------

    async def fetch_committed(self, partitions: Sequence[TopicPartition]) -> CommittedOffsets | None:
        """Return the group's committed offsets; None after `break_off_fetch`.

        Raises:
            KafkaError: The coordinator returned an error that no retry can fix.
            RetriesExhaustedError: The options allow no further retry.
            CommitError: The membership is over.
        """
        with trio.CancelScope() as self._fetching:
            await self._source.logs.fetch_metadata(partitions)
            found = await self._offsets.fetch(partitions)
            # An uncommitted mark counts as committed. It may be a looked-up start offset whose commit got no response
            # before the start was cancelled. A second lookup of `newest` would skip the messages written since.
            return {partition: self._offsets.ledger.marked(partition) for partition in found}
        return None

    def break_off_fetch(self) -> None:
        """Cancel `fetch_committed`."""
        self._fetching.cancel()

    # -- handler.start_offset, offset lookup --------------------------------------------------------------

    def prepare(self, committed: CommittedOffsets) -> StartBatch:
        """Return a new batch for `start`. `cancel` can cancel it from now on."""
        batch = StartBatch(committed, frozenset(committed))
        self._batches.append(batch)
        return batch

    async def start(self, batch: StartBatch) -> None:
        """Start the partitions of a batch, each as soon as its start offset is known.

        Raises:
            HandlerError: `start_offset` returned an invalid offset.
            NoCommittedOffsetError: A partition has no committed offset, and `Config.offset_initial` is `fail`.
            CommitError: The generation was over before a looked-up offset could be committed.
            Exception: Any exception of `start_offset`.
        """
        time_slice = TimeSlice(self._runtime.handler_time)
        try:
            known: dict[TopicPartition, Start] = {}
            policies: dict[TopicPartition, OffsetPolicy] = {}
            for partition, commit in batch.committed.items():
                chosen = await self._call_start_offset(partition, commit, time_slice)
                initial = self._runtime.config.offset_initial_of(partition.topic)
                start = choose_start(chosen, commit, initial, is_new=self._growth.is_new(partition))
                if isinstance(start, Start):
                    known[partition] = start
                else:
                    policies[partition] = start
            check_policies(policies, self._offsets.group)
            if known or not policies:  # a handler's streams start with the first assignment, even if it is empty
                self._claim(batch, known)
            await self._source.lookup.find_each(policies, partial(self._on_found, batch, policies))
        finally:
            time_slice.interrupt()  # otherwise a cancelled wait would keep its place in the queue forever
            self._batches.remove(batch)
            batch.ended.set()

    async def _call_start_offset(
        self, partition: TopicPartition, commit: CommittedOffset | None, time_slice: TimeSlice
    ) -> Start | None:
        """Return the handler's start offset; None if the handler chose the default."""
        if partition not in self._answers:
            if time_slice.is_over(trio.current_time()):  # each call of `start_offset` may block
                await time_slice.wait()
            self._answers[partition] = await awaited(self._handler.start_offset, partition, commit)
        if (chosen := self._answers[partition]) is None:
            return None
        start = _handler_start(partition, chosen)
        if isinstance(chosen, CommittedOffset) and chosen.metadata:
            self._offsets.ledger.note(partition)
        return start

    async def _on_found(
        self,
        batch: StartBatch,
        policies: Mapping[TopicPartition, OffsetPolicy],
        found: Mapping[TopicPartition, LogOffset],
    ) -> None:
        """Commit looked-up offsets at once, so that a rejoin before the first mark does not look them up again."""
        for partition, place in found.items():
            self._offsets.ledger.mark(partition, CommittedOffset(place.offset, leader_epoch=place.leader_epoch))
        # Only these partitions: if the handler commits itself, other marked messages may not be durable yet.
        await self._offsets.commit(found)
        starts = {}
        for partition, place in found.items():
            why = "added" if self._growth.is_new(partition) else describe_policy(policies[partition])
            starts[partition] = Start.at(place, why)
        self._claim(batch, starts)

    # -- claim ----------------------------------------------------------------------------------------------

    def _claim(self, batch: StartBatch, starts: Mapping[TopicPartition, Start]) -> None:
        if batch.scope.cancel_called or self._has_ended:
            return
        batch.waiting = batch.waiting.difference(starts)
        for partition in starts:
            self._answers.pop(partition, None)
        runtime, fetcher, logs = self._runtime, self._source.fetcher, self._source.logs
        consumers = [
            fetcher.feed(tp, start.offset, start.leader_epoch, start.lookup_epoch, logs.topic_id(tp.topic))
            for tp, start in starts.items()
        ]
        for partition, start in starts.items():
            runtime.observer(ClaimStarted(partition, start.offset, start.why))
        intercept, handler_time = runtime.interceptors.consume, runtime.handler_time
        ledger = self._offsets.ledger
        self._readers.start(Claim(consumer, runtime.config, intercept, handler_time, ledger) for consumer in consumers)
        fetcher.read(consumers)

    # -- cancellation -------------------------------------------------------------------------------------

    def cancel(self, partitions: Iterable[TopicPartition]) -> None:
        """Cancel the batches in which one of these partitions has not started yet."""
        revoked = frozenset(partitions)
        for batch in self._batches:
            if batch.waiting & revoked and batch not in self._cancelled:
                batch.scope.cancel()
                self._cancelled.append(batch)

    async def wait_cancelled(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Wait until the cancelled batches have ended, and forget the results of `start_offset` for `partitions`.

        Returns:
            The partitions of these batches that have not started.
        """
        # `_batches` is not enough: a batch removes itself when it ends, which may be before this call.
        ending, self._cancelled = self._cancelled, []
        for batch in ending:
            await batch.ended.wait()
        for partition in partitions:
            self._answers.pop(partition, None)
        return frozenset().union(*(batch.waiting for batch in ending))

    def stop_all(self) -> None:
        """Cancel all starts, and start no partition any more: the session ends."""
        self._has_ended = True
        self._fetching.cancel()
        for batch in self._batches:
            batch.scope.cancel()


def _handler_start(partition: TopicPartition, chosen: object) -> Start:
    """Return the start that a handler has chosen.

    Raises:
        HandlerError: `chosen` is no offset.
    """
    place = chosen if isinstance(chosen, CommittedOffset) else CommittedOffset(chosen)  # type: ignore[arg-type]
    epoch = place.leader_epoch
    if not is_offset(place.offset) or isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < NO_LEADER_EPOCH:
        raise HandlerError(
            f"start_offset({partition}) returned {chosen!r}: must be an offset (an int), a CommittedOffset or None"
        )
    return Start(place.offset, "handler", epoch)
