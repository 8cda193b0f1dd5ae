"""Lander of one claim: collects records, flushes them link by link, marks them.

It owns the partition's chain and its buffer; link_appender.py appends single links.

One task collects records as long as the buffer has room, another flushes records that are due. So records are read
while others are flushed. Both count towards the group's byte budget. If the budget is used up, the partition is not
fetched, and its collected records are flushed early.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import trio

from sarameya import Activity, Claim, Session
from sarameya_handlers.landing.chain import Chain
from sarameya_handlers.landing.chain_start import RETENTION, Gap
from sarameya_handlers.landing.errors import LostRecordsError
from sarameya_handlers.landing.links import UNKNOWN_COUNT, CommitNote, Kind, Link
from sarameya_handlers.landing.sizing import Sizing
from sarameya_handlers.spark.sink.buffer import CollectedBatch, PartitionBuffer
from sarameya_handlers.spark.sink.flush_scheduler import FlushScheduler, wall_clock
from sarameya_handlers.spark.sink.link_appender import LeftToNextOwnerError, LinkAppender
from sarameya_handlers.spark.sink.settings import SinkSettings
from sarameya_handlers.spark.tables.table import Landing, Phase

logger = logging.getLogger("sarameya.spark")

MARGIN = 1.25
"""Factor on the usual duration of a flush: a revoked partition starts a flush only if at least this time is left."""
_CHECK_INTERVAL = 0.5
"""Seconds between two checks whether the claim has ended, while its buffer is full."""


class PartitionLander:
    """Lands one claim. Records `gap` first, if it is given."""

    def __init__(
        self,
        session: Session,
        claim: Claim,
        chain: Chain,
        scheduler: FlushScheduler,
        settings: SinkSettings,
        *,
        gap: Gap | None = None,
    ) -> None:
        self._session = session
        self._claim = claim
        self._chain = chain
        self._scheduler = scheduler
        self._settings = settings
        self._gap = gap
        self._sizing = Sizing(settings.limits.max_bytes, settings.file_bytes)
        self._buffer = PartitionBuffer(settings.limits, claim.initial_offset, self._sizing)
        self._in_flight = 0
        """Bytes of the records that are being flushed."""
        self._held = 0
        """Bytes counted towards the group's byte budget."""
        self._changed = trio.Event()
        """Wakes the flushing task."""
        self._room = trio.Event()
        """Wakes the collecting task."""
        self._is_nudged = False
        """True if a flush of other partitions starts that this one may join."""
        self._ended = trio.Event()
        """Set when the claim has ended."""
        self._appender = LinkAppender(session, claim, chain, scheduler, settings, self._sizing, self._ended)

    async def run(self) -> None:
        """Land the claim's records until it has ended. Records may be left to the next owner."""
        stop_nudging = self._scheduler.on_flush(self._nudge)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._collect)
                if self._gap:
                    await self._append_gap(self._gap)
                self._mark()
                await self._flush_due()
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            left, failed = group.split(LeftToNextOwnerError)
            if left is not None:
                topic_partition = self._claim.topic_partition
                logger.warning("%s: records that have not landed are left to the next owner", topic_partition)
            if failed is not None:
                # Usually one of the two tasks has failed, and the other was cancelled for that reason.
                error = failed.exceptions[0] if len(failed.exceptions) == 1 else failed
                raise error from error.__cause__
        finally:
            stop_nudging()
            self._claim.release(self._held)  # the claim may go on without these records

    # -- collecting ----------------------------------------------------------------------------------

    async def _collect(self) -> None:
        buffer = self._buffer
        async for batch in self._claim.batches():
            buffer.add(batch.to_arrow(), batch.from_offset, batch.next_offset, trio.current_time(), batch.leader_epoch)
            self._account()
            self._notify_changed()
            while buffer.is_full and not self._claim.has_ended:
                self._room = trio.Event()
                # With a time limit: if the claim ends while this task reads no batch, nothing wakes the task.
                with trio.move_on_after(_CHECK_INTERVAL):
                    await self._room.wait()
        self._ended.set()
        self._notify_changed()

    def _account(self) -> None:
        """Count all collected records towards the group's byte budget."""
        size = self._buffer.size_bytes + self._in_flight
        if size > self._held:
            self._claim.hold(size - self._held)
        else:
            self._claim.release(self._held - size)
        self._held = size

    def _notify_changed(self) -> None:
        self._changed.set()

    def _nudge(self) -> None:
        if self._buffer.is_empty:
            return  # to wake the flushing task would restart its wait, after which a partition counts as idle
        self._is_nudged = True
        self._notify_changed()

    # -- landing -------------------------------------------------------------------------------------

    async def _flush_due(self) -> None:
        while await self._wait_until_due():
            collected = self._buffer.take()
            self._in_flight = collected.size_bytes
            self._account()
            self._room.set()
            await self._flush(collected)
            self._is_nudged = False  # probably set by this flush itself; a flush of others has started without us
            self._in_flight = 0
            self._account()

    async def _wait_until_due(self) -> bool:
        """Wait until records are due. Return False if the claim has ended and no more are to be flushed."""
        buffer = self._buffer
        while True:
            if self._ended.is_set():
                return not buffer.is_empty and self._is_time_left()
            now = trio.current_time()
            nudged, self._is_nudged = self._is_nudged, False
            if buffer.is_due(now) or (nudged and buffer.may_flush_early(now)):
                return True
            if not (buffer.is_empty or self._claim.has_room):
                return True  # no more records are fetched before some of these have landed
            self._changed = trio.Event()
            with trio.move_on_at(min(buffer.deadline, now + self._settings.limits.max_age)) as timeout:
                await self._changed.wait()
            if timeout.cancelled_caught and buffer.is_empty:
                await self._handle_idle()

    def _is_time_left(self) -> bool:
        """Return whether the remaining records are to be flushed.

        They are not if other members own the partition, or if the time left is too short for a flush and the flushes
        before it.
        """
        problem = f"{self._claim.topic_partition}: {self._buffer.rows} rows are left to the next owner"
        if self._session.is_lost:
            logger.warning("%s, the membership is lost", problem)
            return False
        left = trio.current_effective_deadline() - trio.current_time()
        usual, before = self._scheduler.usual_seconds, self._scheduler.flushes_ahead
        if left < MARGIN * usual * (1 + before):
            text = (
                "%s: not enough time for a flush, which usually takes %.1f s (flushes before it: %d): %.1f s are left"
            )
            logger.info(text, problem, usual, before, left)
            return False
        return True

    async def _handle_idle(self) -> None:
        """Mark control records at the log's end, and rewrite a head that the table may forget, after an idle time."""
        if self._buffer.note_gap(self._claim.from_offset, trio.current_time()):
            return  # records are missing: the gap lands first
        if self._claim.position > self._buffer.position:
            self._mark(self._claim.position)
        head, after = self._chain.head, self._settings.restate_after
        if self._session.is_lost:
            return
        if head is not None and after is not None and wall_clock() - head.tried_at > after * 1000:
            logger.info("%s: an empty link is appended, before the table's history of this link expires", head)
            await self._append(lambda _: self._propose(head.to_offset, head.to_offset, kind=Kind.RESTATED), None)

    async def _flush(self, collected: CollectedBatch) -> None:
        if collected.table is None:
            await self._append_missing(Gap(collected.from_offset, collected.to_offset, RETENTION))
            return
        rest: CollectedBatch | None = collected
        while rest is not None:
            await self._append(self._propose_records, rest)
            assert self._chain.head is not None
            # Another owner may have landed only a part of the batch.
            rest = rest.since(self._chain.head.to_offset)

    async def _append_missing(self, gap: Gap) -> None:
        if not self._settings.allows_gaps:
            raise LostRecordsError(
                f"{self._claim.topic_partition}: the records [{gap.from_offset}, {gap.to_offset}) were deleted before "
                "they landed: to go on without them, set on_missing = 'leave_out'"
            )
        await self._append_gap(gap)

    async def _append_gap(self, gap: Gap) -> None:
        topic_partition = self._claim.topic_partition
        logger.warning(
            "%s: the records [%d, %d) are left out: %s", topic_partition, gap.from_offset, gap.to_offset, gap.reason
        )

        def propose(_: CollectedBatch | None) -> Link:
            return self._propose(gap.from_offset, gap.to_offset, kind=Kind.GAP, reason=gap.reason)

        # The partition's last owner may have read some of these records in time, and may land them first.
        while (head := self._chain.head) is None or head.to_offset < gap.to_offset:
            await self._append(propose, None)

    def _propose_records(self, collected: CollectedBatch | None) -> Link:
        assert collected is not None
        return self._propose(
            collected.from_offset,
            collected.to_offset,
            rows=UNKNOWN_COUNT,
            records=collected.rows + collected.dead_letters,
            dead_letters=collected.dead_letters,
            is_transformed=self._settings.is_transformed,
            leader_epoch=collected.leader_epoch,
        )

    def _propose(self, from_offset: int, to_offset: int, **fields: Any) -> Link:
        return self._chain.propose(from_offset, to_offset, attempt=uuid4().hex, tried_at=wall_clock(), **fields)

    async def _append(self, propose: Callable[[CollectedBatch | None], Link], collected: CollectedBatch | None) -> None:
        """Append the next link, unless another owner does so first, and mark it."""
        with self._claim.report.doing(Activity.LANDING, f"{collected.rows} rows" if collected else ""):
            await self._appender.append(propose, collected)
            self._advance()

    def _advance(self) -> None:
        """Continue after the chain's new head, which this owner or another has appended."""
        head = self._chain.head
        assert head is not None
        self._buffer.trim(head.to_offset)
        # If another owner has landed all collected records, none is taken from the buffer, and nothing else wakes the
        # collecting task.
        self._room.set()
        self._mark()
        self._settings.on_phase(Phase.MARKED, [Landing(link=head, staged=None)])

    def _mark(self, position: int = 0) -> None:
        """Mark the landed records, with a note of the last link, or up to `position` if that is further."""
        claim, head = self._claim, self._chain.head
        if head is not None:
            claim.report.landed = head.to_offset
        offset = max(head.to_offset if head else claim.initial_offset, position)
        if not self._session.is_lost and (head or offset > claim.initial_offset):
            note = CommitNote.of(head).to_metadata() if head else ""
            self._session.mark_offset(claim.topic, claim.partition, offset, note)
