"""Detection of overdue handlers: they have held the same records for too long.

A handler holds a message or a batch from the moment it gets it until it requests the next one. It is overdue if it has
held the same records for `limit_of(config)` seconds, and meanwhile has marked nothing of the partition, has not moved
its landed offset, and reports no activity (`Claim.report`). So a handler that lands, retries or waits for room is not
overdue as long as it reports that; `/readyz` detects that nothing progresses at all. See
`test_stuck_handler_is_reported_once_with_offset_and_stack`.

All claims are checked periodically, ten times within the limit: a check for each message would cost more than the
message itself. So `seconds` may be too short by one check interval.
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
"""Minimum of seconds after which a handler is overdue."""
TIMES = 10
"""Minimum of the limit as a multiple of `Config.max_processing_time`."""
_CHECKS = 10
"""Number of checks within the limit."""
_RECOVERY = 1.5
"""Time without being overdue after which an overdue handler counts as recovered, in multiples of the limit.

So a handler that takes too long for each batch is reported once, not for each batch.
"""
_MOST_STACKS = 20
"""Maximum number of stacks that are kept: each is sent to the status page's process every second."""


def limit_of(config: Config) -> float:
    """Return the seconds after which a handler is overdue."""
    return max(LEAST, TIMES * config.max_processing_time)


@attrs.define(slots=True, eq=False)
class _Hold:
    """The records that a handler holds."""

    pace: object
    """The handler's progress at the last check (`_pace`)."""
    since: float
    """Time since which the records are held without progress, on trio's clock."""
    offset: int
    last_offset: int
    is_overdue: bool = False
    stack: str = ""
    reported: OverdueHandler | None = None
    """The last reported overdue records; None once the handler has recovered."""
    reported_at: float = 0.0
    """Time at which the handler was last overdue."""


class OverdueHandlers:
    """The overdue handlers of one session. `check` checks all claims once; `run` does so periodically."""

    def __init__(self, readers: Readers, offsets: OffsetManager, config: Config, observer: Observer) -> None:
        self._readers = readers
        self._offsets = offsets
        self._observer = observer
        self._limit = limit_of(config)
        self._holds: dict[Claim, _Hold] = {}
        self._checked_at = trio.current_time()

    async def run(self) -> None:
        """Check until cancelled, and then once more: claims that have ended by then are no longer overdue."""
        try:
            while True:
                await trio.sleep(self._limit / _CHECKS)
                self.check(trio.current_time())
        finally:
            self.check(trio.current_time())

    def check(self, now: float) -> None:
        """Check all claims. Report handlers that have become overdue, and handlers that have recovered."""
        claims = self._readers.claims
        for claim in claims:
            if claim in self._holds or claim.taken_at is not None:
                self._check_claim(claim, now)
        reading = frozenset(claims)
        for claim in [claim for claim in self._holds if claim not in reading]:
            self._report_recovery(self._holds.pop(claim))
        self._checked_at = now

    def of(self, claim: Claim, now: float) -> OverdueHandler | None:
        """Return the records that the claim's handler has held for too long; None if it is not overdue."""
        hold = self._holds.get(claim)
        if hold is None or not hold.is_overdue or hold.pace != self._pace(claim):
            return None
        return self._described(claim, hold, now)

    def _check_claim(self, claim: Claim, now: float) -> None:
        hold, pace = self._holds.get(claim), self._pace(claim)
        if hold is None:
            assert claim.taken_at is not None
            hold = self._holds[claim] = _Hold(pace, claim.taken_at, *claim.held_offsets)
        elif hold.pace != pace:
            # If the records were taken before the last check, the time of the progress is unknown: count from now.
            is_new = claim.taken_at is not None and claim.taken_at >= self._checked_at
            hold.pace, hold.since = pace, claim.taken_at if is_new and claim.taken_at is not None else now
            hold.offset, hold.last_offset = claim.held_offsets
        is_silent = claim.taken_at is not None and claim.report.doing_now is None
        hold.is_overdue = is_silent and now - hold.since >= self._limit
        if hold.is_overdue:
            self._report(claim, hold, now)
        elif hold.reported is None and claim.taken_at is None:
            del self._holds[claim]
        elif now - hold.reported_at > _RECOVERY * self._limit:
            self._report_recovery(hold)

    def _report(self, claim: Claim, hold: _Hold, now: float) -> None:
        others = sum(1 for other in self._holds.values() if other.stack and other is not hold)
        task = self._readers.task_of(claim.topic_partition)
        hold.stack = stack_of(task) if task is not None and others < _MOST_STACKS else ""
        is_new, hold.reported, hold.reported_at = hold.reported is None, self._described(claim, hold, now), now
        if is_new:
            handler = hold.reported
            self._observer(
                HandlerOverdue(handler.partition, handler.offset, handler.last_offset, handler.seconds, handler.stack)
            )

    def _report_recovery(self, hold: _Hold) -> None:
        handler, hold.reported, hold.stack = hold.reported, None, ""
        if handler is not None:
            self._observer(HandlerReturned(handler.partition, handler.offset, handler.last_offset, handler.seconds))

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
        # New messages are no progress while an older one is stuck.
        position = claim.position if claim.oldest_in_flight is None else -1
        return claim.taken_at, position, marked, report.landed, report.doing_now
