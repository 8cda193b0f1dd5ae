"""Handlers that have held the same records for too long.

A handler holds a message or a batch from when it gets it until it asks for the next one. It is overdue once it has held
the same records for `limit_of(config)` seconds, and meanwhile has marked nothing of the partition, has not moved its
landed offset, and does not report what it does (`Claim.report`). So a handler that lands, retries or waits for room in
an orderly way is not overdue, however long that takes; `/readyz` notices when nothing moves at all. See
`test_stuck_handler_is_reported_once_with_offset_and_stack`.

All claims are checked a few times within the limit: an event for each message would cost more than the message itself.
So `seconds` may be too short by one check interval.
"""

from __future__ import annotations

import attrs
import trio

from sarameya.config import Config
from sarameya.group.claim import Claim
from sarameya.group.monitoring.stacks import stack_of
from sarameya.group.offsets.offset_manager import OffsetManager
from sarameya.group.session_machine.readers import Readers
from sarameya.observe import HandlerOverdue, HandlerReturned, Observer
from sarameya.status import OverdueHandler

LEAST = 30.0
"""The minimum of seconds after which a handler is overdue."""
TIMES = 10
"""The limit as a multiple of `Config.max_processing_time`; the larger one of the two counts."""
_LOOKS = 10
"""Number of checks within the limit."""
_CALM = 1.5
"""Time without being overdue after which an overdue handler counts as recovered, in multiples of the limit.

A handler that takes too long for each batch is therefore reported once, and not for each batch.
"""
_MOST_STACKS = 20
"""Maximum of stacks that are kept: each is sent to the status page's process every second."""


def limit_of(config: Config) -> float:
    """Return the seconds after which a handler is overdue."""
    return max(LEAST, TIMES * config.max_processing_time)


@attrs.define(slots=True, eq=False)
class _Hold:
    pace: object
    since: float
    offset: int
    last_offset: int
    is_overdue: bool = False
    stack: str = ""
    reported: OverdueHandler | None = None
    """The last overdue records, while they are reported and not over."""
    reported_at: float = 0.0


class OverdueHandlers:
    """The overdue handlers of one session. `look` checks all claims once; `run` does so periodically."""

    def __init__(self, readers: Readers, offsets: OffsetManager, config: Config, observer: Observer) -> None:
        self._readers = readers
        self._offsets = offsets
        self._observer = observer
        self._limit = limit_of(config)
        self._holds: dict[Claim, _Hold] = {}
        self._looked_at = trio.current_time()

    async def run(self) -> None:
        """Check until cancelled, and then once more: claims that have ended by then are no longer overdue."""
        try:
            while True:
                await trio.sleep(self._limit / _LOOKS)
                self.look(trio.current_time())
        finally:
            self.look(trio.current_time())

    def look(self, now: float) -> None:
        """Check all claims. Report handlers that have become overdue, and those that no longer are."""
        claims = self._readers.claims
        for claim in claims:
            if claim in self._holds or claim.taken_at is not None:
                self._look_at(claim, now)
        reading = frozenset(claims)
        for claim in [one for one in self._holds if one not in reading]:
            self._report_over(self._holds.pop(claim))
        self._looked_at = now

    def of(self, claim: Claim, now: float) -> OverdueHandler | None:
        """Return the records that the claim's handler has held for too long, or None."""
        hold = self._holds.get(claim)
        if hold is None or not hold.is_overdue or hold.pace != self._pace(claim):
            return None
        return self._described(claim, hold, now)

    def _look_at(self, claim: Claim, now: float) -> None:
        hold, pace = self._holds.get(claim), self._pace(claim)
        if hold is None:
            assert claim.taken_at is not None
            hold = self._holds[claim] = _Hold(pace, claim.taken_at, *claim.held_offsets)
        elif hold.pace != pace:
            # The time is unknown for records that were taken before the last check: the handler asked for more since.
            is_new = claim.taken_at is not None and claim.taken_at >= self._looked_at
            hold.pace, hold.since = pace, claim.taken_at if is_new and claim.taken_at is not None else now
            hold.offset, hold.last_offset = claim.held_offsets
        works = claim.taken_at is not None and claim.report.doing_now is None
        hold.is_overdue = works and now - hold.since >= self._limit
        if hold.is_overdue:
            self._report(claim, hold, now)
        elif hold.reported is None and claim.taken_at is None:
            del self._holds[claim]
        elif now - hold.reported_at > _CALM * self._limit:
            self._report_over(hold)

    def _report(self, claim: Claim, hold: _Hold, now: float) -> None:
        others = sum(1 for one in self._holds.values() if one.stack and one is not hold)
        task = self._readers.task_of(claim.topic_partition)
        hold.stack = stack_of(task) if task is not None and others < _MOST_STACKS else ""
        is_new, hold.reported, hold.reported_at = hold.reported is None, self._described(claim, hold, now), now
        if is_new:
            one = hold.reported
            self._observer(HandlerOverdue(one.partition, one.offset, one.last_offset, one.seconds, one.stack))

    def _report_over(self, hold: _Hold) -> None:
        one, hold.reported, hold.stack = hold.reported, None, ""
        if one is not None:
            self._observer(HandlerReturned(one.partition, one.offset, one.last_offset, one.seconds))

    def _described(self, claim: Claim, hold: _Hold, now: float) -> OverdueHandler:
        return OverdueHandler(
            partition=claim.topic_partition,
            offset=hold.offset,
            last_offset=hold.last_offset,
            seconds=now - hold.since,
            stack=hold.stack,
        )

    def _pace(self, claim: Claim) -> object:
        """Return a value that changes with each sign of work on the claim."""
        marked, _ = self._offsets.ledger.known(claim.topic_partition)
        report = claim.report
        return claim.taken_at, claim.position, marked, report.landed, report.doing_now
