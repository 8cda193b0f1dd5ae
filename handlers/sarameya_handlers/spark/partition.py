"""One claim on its way into a table: collected, landed link by link, marked. Owns the partition's chain and its buffer.

Two tasks: one collects, as long as there is room, one lands what is due. So records are read while others land, and
what both hold counts towards the byte budget of the group; when that is used up the partition is not fetched, and what
has been collected lands early rather than wait for more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from math import inf
from uuid import uuid4

import attrs
import trio

from sarameya import (
    Activity,
    Claim,
    DeadLettered,
    Event,
    Landed,
    LandingFailed,
    LandingStarted,
    Report,
    Session,
)
from sarameya_handlers.landing.chain import Chain, Outcome
from sarameya_handlers.landing.dead_letters import DeadLetterError, DeadLetters
from sarameya_handlers.landing.errors import LostRecordsError
from sarameya_handlers.landing.links import Kind, Link, Note
from sarameya_handlers.landing.sizing import Sizing
from sarameya_handlers.landing.starting import RETENTION, Gap
from sarameya_handlers.spark.buffer import Collected, PartitionBuffer
from sarameya_handlers.spark.errors import LandingError, cause_of
from sarameya_handlers.spark.lander import Lander, Result, wall_clock
from sarameya_handlers.spark.landing import OnPhase, Try
from sarameya_handlers.spark.options import Limits
from sarameya_handlers.spark.poison.blame import Blame, blame, passes
from sarameya_handlers.spark.poison.finding import PoisonError, dead_letters
from sarameya_handlers.spark.tables.table import Landing, Phase

logger = logging.getLogger("sarameya.spark")

MARGIN = 1.25
"""Times the usual time that must be left to begin a landing when its partition is given up."""
_HURRIED = 0.5
"""Seconds between two tries of what is given up."""
_LOOK_EACH = 0.5
"""Seconds between two looks whether the claim of a full buffer has ended."""


@attrs.frozen(slots=True, kw_only=True)
class Terms:
    """What holds for each partition of a sink."""

    limits: Limits
    may_leave_out: bool = False
    """Whether records that are gone from the log, or that the group's commit was moved beyond, become a gap in the
    chain, rather than an error."""
    retry_for: float = 900.0
    """Seconds for which a landing is tried again before its failure ends the session."""
    file_bytes: int | None = None
    """How large files should be; None leaves it to the limits."""
    restate_after: float | None = None
    dead_letters: DeadLetters | None = None
    on_phase: OnPhase = attrs.field(default=lambda phase, landings: None)


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
            left, failed = group.split(_LeftError)
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
            await self._try_on(propose, collected)

    async def _try_on(self, propose: Callable[[], Link], collected: Collected | None) -> None:
        retry = Retry(self._ended, self._terms.retry_for, self._claim.report)
        is_alone = was_hurried = False
        while True:
            if self._session.is_lost:
                raise _LeftError
            link = propose()
            one = Try(link, collected.table if collected else None, is_alone)
            since = link.number - 1 or 1
            self._tell_of(link, LandingStarted)
            result = await self._lander.land(one, since)
            while (links := result.links) is None:
                await retry.wait(f"{link}: what has become of it is not known", result.error)
                result = await self._lander.find(link.key, since)
            settled = self._chain.settle(links)
            self._terms.on_phase(Phase.SETTLED, [Landing(link=link, staged=None)])
            if settled.outcome is not Outcome.ABSENT:
                if settled.outcome is Outcome.LANDED and settled.link and collected:
                    self._sizing.landed(collected.size_bytes, settled.link.size_bytes)
                self._landed(link, settled.outcome, settled.link, result)
                return
            if self._session.is_lost:
                raise _LeftError
            if result.was_shared and result.error is not None and not passes(result.error):
                is_alone = True
                continue
            error = result.error
            self._tell_of(link, partial(LandingFailed, cause=cause_of(error) if error else "it is absent"))
            if collected is not None and collected.table is not None and _may_be_poison(error):
                try:
                    without = await self._without_poison(one, collected)
                except Exception as raised:
                    if not passes(raised):
                        raise
                    error = raised  # whether it is any record's fault is found out the next time
                else:
                    if without is not collected:
                        collected = without
                        continue
            if was_hurried:
                raise _LeftError
            await retry.wait(f"{link} did not land", error)
            # What is given up is tried once more, in what time there is; then it is for the next owner.
            was_hurried = self._ended.is_set()

    async def _without_poison(self, one: Try, collected: Collected) -> Collected:
        """What is left once the records that Spark can make nothing of are dead letters; the same where there are none.
        Raises LandingError where that is no records' fault, PoisonError where there is no place for them."""
        poison = await self._lander.find_poison(one)
        if not poison.bad:
            return collected
        if self._terms.dead_letters is None:
            raise PoisonError.of(one, poison)
        letters = dead_letters(one, poison)
        retry = Retry(self._ended, report=self._claim.report)
        while True:
            try:
                await self._terms.dead_letters.write(one.link, letters)
                break
            except DeadLetterError as error:
                await retry.wait(f"{one.link}: {len(letters)} dead letters are not written, and it waits", error)
        name = self._terms.dead_letters.name
        self._session.tell(DeadLettered(partition=self._claim.topic_partition, count=len(letters), place=name))
        logger.warning(
            "%s: %d records are dead letters in %s, the first at %s: %s",
            one.link,
            len(letters),
            name,
            letters[0].offset,
            letters[0].error,
        )
        return attrs.evolve(collected, table=poison.kept if poison.kept.num_rows else None)

    def _landed(self, link: Link, outcome: Outcome, winner: Link | None, result: Result) -> None:
        if outcome is Outcome.LANDED:
            assert winner is not None
            rows = f"{winner.rows} rows " if winner.rows >= 0 else ""
            logger.info("%s: %slanded in %.2f s", winner, rows, result.seconds)
            self._tell_of(
                winner, partial(Landed, rows=winner.rows, size_bytes=winner.size_bytes, seconds=result.seconds)
            )
        else:
            logger.warning("%s: somebody else was first, with %s", link, winner)
        head = self._chain.head
        assert head is not None
        self._buffer.trim(head.to_offset)
        self._room.set()  # by what others have landed: perhaps all that was collected, so that nothing more is taken
        self._mark()
        self._terms.on_phase(Phase.MARKED, [Landing(link=head, staged=None)])

    def _tell_of(self, link: Link, event: Callable[..., Event]) -> None:
        """Tell observers of what is about a link's records; what says something of offsets only is no landing."""
        if link.kind is Kind.RECORDS:
            offsets = {"from_offset": link.from_offset, "to_offset": link.to_offset}
            self._session.tell(event(partition=link.key.topic_partition, **offsets))

    def _mark(self, position: int = 0) -> None:
        """Mark what has landed, with the note of the link that says so, up to the `position` where nothing more was."""
        claim, head = self._claim, self._chain.head
        if head is not None:
            claim.report.landed = head.to_offset
        offset = max(head.to_offset if head else claim.initial_offset, position)
        if not self._session.is_lost and (head or offset > claim.initial_offset):
            note = Note.of(head).to_metadata() if head else ""
            self._session.mark_offset(claim.topic, claim.partition, offset, note)


def _may_be_poison(error: Exception | None) -> bool:
    return error is not None and blame(error) in (Blame.RECORD, Blame.UNKNOWN)


class _LeftError(Exception):
    """Others own the partition, or will soon: they land what has not landed."""


@attrs.define(slots=True)
class Retry:
    """Waits, longer each time, for `patience` seconds at most, and no longer than the claim lasts, if there is one."""

    _ended: trio.Event = attrs.field(factory=trio.Event)
    patience: float = inf
    _report: Report | None = None
    """Where it is said, if that is anybody's."""
    _tries: int = 1
    _since: float = attrs.field(factory=trio.current_time)
    _delay: float = 0.5
    _longest: float = 30.0

    async def wait(self, what: str, error: Exception | None) -> None:
        """Raises LandingError where waiting is of no use, or has been for long enough."""
        cause = cause_of(error) if error else "the table says nothing about why"
        waited = trio.current_time() - self._since
        if error is not None and not passes(error):
            raise LandingError(f"{what}: {cause}") from error
        if waited + self._delay > self.patience:
            raise LandingError(f"{what}, after {waited:.0f} s of trying: {cause}") from error
        logger.warning("%s, the next try is in %.1f s: %s", what, self._delay, cause)
        self._tries += 1
        with self._said(f"{what}: {cause}"):
            if self._ended.is_set():
                await trio.sleep(_HURRIED)
            with trio.move_on_after(self._delay):
                await self._ended.wait()
        self._delay = min(2 * self._delay, self._longest)

    def _said(self, why: str) -> AbstractContextManager[None]:
        if self._report is None:
            return nullcontext()
        return self._report.doing(Activity.RETRYING, why, attempt=self._tries)
