"""One claim on its way into a table: collected, landed link by link, marked. Owns the partition's chain and its buffer;
how one link comes to be in the table is `appending.py`'s.

Two tasks: one collects, as long as there is room, one lands what is due. So records are read while others land, and
what both hold counts towards the byte budget of the group; when that is used up the partition is not fetched, and what
has been collected lands early rather than wait for more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import uuid4

import trio

from sarameya import Activity, Claim, Session
from sarameya_handlers.landing.chain import Chain
from sarameya_handlers.landing.errors import LostRecordsError
from sarameya_handlers.landing.links import Kind, Link, Note
from sarameya_handlers.landing.sizing import Sizing
from sarameya_handlers.landing.starting import RETENTION, Gap
from sarameya_handlers.spark.appending import Appending, LeftError
from sarameya_handlers.spark.buffer import Collected, PartitionBuffer
from sarameya_handlers.spark.lander import Lander, wall_clock
from sarameya_handlers.spark.tables.table import Landing, Phase
from sarameya_handlers.spark.terms import Terms

logger = logging.getLogger("sarameya.spark")

MARGIN = 1.25
"""Times the usual time that must be left to begin a landing when its partition is given up."""
_LOOK_EACH = 0.5
"""Seconds between two looks whether the claim of a full buffer has ended."""


class Partition:
    """Lands one claim. `gap` is what has to be left out first."""

    def __init__(
        self,
        session: Session,
        claim: Claim,
        chain: Chain,
        lander: Lander,
        terms: Terms,
        *,
        gap: Gap | None = None,
    ) -> None:
        self._session = session
        self._claim = claim
        self._chain = chain
        self._lander = lander
        self._terms = terms
        self._gap = gap
        self._sizing = Sizing(terms.limits.max_bytes, terms.file_bytes)
        self._buffer = PartitionBuffer(terms.limits, claim.initial_offset, self._sizing)
        self._in_flight = 0
        self._held = 0
        self._changed = trio.Event()
        self._room = trio.Event()
        self._is_nudged = False
        self._ended = trio.Event()
        self._appending = Appending(session, claim, chain, lander, terms, self._sizing, self._ended)

    async def run(self) -> None:
        """Until the claim has ended and what it has given has landed, or is left to the next owner."""
        forget = self._lander.on_flush(self._nudge)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._collect)
                if self._gap:
                    await self._leave_out(self._gap)
                self._mark()
                await self._land_what_is_due()
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            left, failed = group.split(LeftError)
            if left is not None:
                logger.warning("%s: what has not landed is left to the next owner", self._claim.topic_partition)
            if failed is not None:
                # Mostly one of the two tasks has failed, and the other was cancelled for it.
                error = failed.exceptions[0] if len(failed.exceptions) == 1 else failed
                raise error from error.__cause__
        finally:
            forget()

    # -- collecting ----------------------------------------------------------------------------------

    async def _collect(self) -> None:
        buffer = self._buffer
        async for batch in self._claim.batches():
            buffer.add(batch.to_arrow(), batch.from_offset, batch.next_offset, trio.current_time(), batch.leader_epoch)
            self._account()
            self._tell()
            while buffer.is_full and not self._claim.has_ended:
                self._room = trio.Event()
                with trio.move_on_after(_LOOK_EACH):  # nobody tells when the claim ends while nothing is taken of it
                    await self._room.wait()
        self._ended.set()
        self._tell()

    def _account(self) -> None:
        """Have all that is kept here count towards the group's byte budget."""
        kept = self._buffer.size_bytes + self._in_flight
        if kept > self._held:
            self._claim.hold(kept - self._held)
        else:
            self._claim.release(self._held - kept)
        self._held = kept

    def _tell(self) -> None:
        self._changed.set()

    def _nudge(self) -> None:
        if self._buffer.is_empty:
            return  # it would be kept from finding out that nothing has come for a while
        self._is_nudged = True
        self._tell()

    # -- landing -------------------------------------------------------------------------------------

    async def _land_what_is_due(self) -> None:
        while await self._until_due():
            collected = self._buffer.take()
            self._in_flight = collected.size_bytes
            self._account()
            self._room.set()
            await self._land(collected)
            self._is_nudged = False  # most likely by this very flush; what others have gathered for is on its way
            self._in_flight = 0
            self._account()

    async def _until_due(self) -> bool:
        """Wait until something is to be landed; False when nothing is any more."""
        buffer = self._buffer
        while True:
            if self._ended.is_set():
                return not buffer.is_empty and self._is_time_left()
            now = trio.current_time()
            nudged, self._is_nudged = self._is_nudged, False
            if buffer.is_due(now) or (nudged and buffer.is_ripe(now)):
                return True
            if not (buffer.is_empty or self._claim.has_room):
                return True  # no more comes before some of what is held has landed
            self._changed = trio.Event()
            with trio.move_on_at(min(buffer.deadline, now + self._terms.limits.max_age)) as patience:
                await self._changed.wait()
            if patience.cancelled_caught and buffer.is_empty:
                await self._stay()

    def _is_time_left(self) -> bool:
        """Whether what is left may be landed: not where others own the partition, nor in less than the usual time, with
        that of whatever is before it."""
        what = f"{self._claim.topic_partition}: {self._buffer.rows} rows are left to the next owner"
        if self._session.is_lost:
            logger.warning("%s, the membership is lost", what)
            return False
        left = trio.current_effective_deadline() - trio.current_time()
        usual, before = self._lander.usual_seconds, self._lander.turns_before
        if left < MARGIN * usual * (1 + before):
            waits = f", and waits for as long as {before} of them" if before else ""
            logger.info("%s: a landing takes %.1f s of late%s, %.1f s are left", what, usual, waits, left)
            return False
        return True

    async def _stay(self) -> None:
        """Nothing has come for a while: pass control records at the end, and remind the table of the head."""
        if self._buffer.miss(self._claim.from_offset, trio.current_time()):
            return  # the position was moved, and nothing has come from there yet
        if self._claim.position > self._buffer.position:
            self._mark(self._claim.position)
        head, after = self._chain.head, self._terms.restate_after
        if self._session.is_lost:
            return
        if head is not None and after is not None and wall_clock() - head.tried_at > after * 1000:
            logger.info("%s is stated anew, before the table forgets it", head)
            await self._append(lambda: self._propose(head.to_offset, head.to_offset, kind=Kind.RESTATED), None)

    async def _land(self, collected: Collected) -> None:
        if collected.table is None:
            await self._leave_out_missing(Gap(collected.from_offset, collected.to_offset, RETENTION))
            return
        rest: Collected | None = collected
        while rest is not None:
            landing = rest

            def propose(landing: Collected = landing) -> Link:
                return self._propose(landing.from_offset, landing.to_offset, leader_epoch=landing.leader_epoch)

            await self._append(propose, landing)
            assert self._chain.head is not None
            rest = rest.since(self._chain.head.to_offset)

    async def _leave_out_missing(self, gap: Gap) -> None:
        if not self._terms.may_leave_out:
            raise LostRecordsError(
                f"{self._claim.topic_partition}: the records [{gap.from_offset}, {gap.to_offset}) are gone before they "
                "landed: to go on without them, set on_missing = 'leave_out'"
            )
        await self._leave_out(gap)

    async def _leave_out(self, gap: Gap) -> None:
        topic_partition = self._claim.topic_partition
        logger.warning(
            "%s: the records [%d, %d) are left out: %s", topic_partition, gap.from_offset, gap.to_offset, gap.reason
        )

        def propose() -> Link:
            return self._propose(gap.from_offset, gap.to_offset, kind=Kind.GAP, reason=gap.reason)

        # Whoever lost the partition may have read some of them in time, and land those first.
        while (head := self._chain.head) is None or head.to_offset < gap.to_offset:
            await self._append(propose, None)

    def _propose(
        self, from_offset: int, to_offset: int, *, leader_epoch: int = -1, kind: Kind = Kind.RECORDS, reason: str = ""
    ) -> Link:
        return self._chain.propose(
            from_offset,
            to_offset,
            attempt=uuid4().hex,
            rows=-1 if kind is Kind.RECORDS else 0,
            leader_epoch=leader_epoch,
            kind=kind,
            reason=reason,
            tried_at=wall_clock(),
        )

    async def _append(self, propose: Callable[[], Link], collected: Collected | None) -> None:
        """Have the next link in the table, by us or somebody else, and mark it."""
        with self._claim.report.doing(Activity.LANDING, f"{collected.rows} rows" if collected else ""):
            await self._appending.append(propose, collected)
            self._landed()

    def _landed(self) -> None:
        """The chain has moved on, by us or somebody else."""
        head = self._chain.head
        assert head is not None
        self._buffer.trim(head.to_offset)
        self._room.set()  # by what others have landed: perhaps all that was collected, so that nothing more is taken
        self._mark()
        self._terms.on_phase(Phase.MARKED, [Landing(link=head, staged=None)])

    def _mark(self, position: int = 0) -> None:
        """Mark what has landed, with the note of the link that says so, up to the `position` where nothing more was."""
        claim, head = self._claim, self._chain.head
        if head is not None:
            claim.report.landed = head.to_offset
        offset = max(head.to_offset if head else claim.initial_offset, position)
        if not self._session.is_lost and (head or offset > claim.initial_offset):
            note = Note.of(head).to_metadata() if head else ""
            self._session.mark_offset(claim.topic, claim.partition, offset, note)
