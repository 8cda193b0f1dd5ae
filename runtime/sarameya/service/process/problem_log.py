"""Problems of readiness and liveness in the log: one line when a problem starts, one when it is over.

Whoever reads only the log must learn of a stalled partition, also if nobody serves or requests `/readyz`. `ProblemLog`
decides, and is pure. `watch_problems` runs it, beside the watchdog, which ends what cannot be helped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import trio

from sarameya.service.monitor.health import HealthProblem, health
from sarameya.service.monitor.members import MemberSource
from sarameya.service.monitor.progress_tracker import ProgressTracker
from sarameya.service.process.signals import Stop

logger = logging.getLogger("sarameya")

INTERVAL = 5.0
"""Seconds between two checks. Every reported problem has lasted longer."""
CALM = 30.0
"""Seconds without a problem until it is over. A problem that comes and goes is reported once."""
MOST = 10
"""Lines of each kind per check: a frozen broker may hold up a thousand partitions."""

_Key = tuple[str, int, str]


@attrs.frozen(slots=True)
class ProblemChange:
    """A problem that has started, or is over after `seconds`."""

    trouble: HealthProblem
    is_over: bool
    seconds: float


@attrs.define(slots=True)
class _Standing:
    trouble: HealthProblem
    since: float
    seen: float
    is_reported: bool = False


class ProblemLog:
    """Memory of reported problems. A problem that is usual for a while is reported after `patience` seconds."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._standing: dict[_Key, _Standing] = {}

    def update(self, troubles: Iterable[HealthProblem], now: float) -> list[ProblemChange]:
        """Return what to report, given the problems that there are now."""
        for trouble in troubles:
            key = (trouble.kind, trouble.worker, trouble.about)
            found = self._standing.setdefault(key, _Standing(trouble, now, now))
            found.trouble, found.seen = trouble, now
        return [*self._over(now), *self._new(now)]

    def _over(self, now: float) -> Iterator[ProblemChange]:
        for key, one in [*self._standing.items()]:
            if one.seen < now and not (one.is_reported and now - one.seen < CALM):
                del self._standing[key]
                if one.is_reported:
                    yield ProblemChange(one.trouble, True, one.seen - one.since)

    def _new(self, now: float) -> Iterator[ProblemChange]:
        for one in self._standing.values():
            stands = now - one.since
            if not one.is_reported and stands >= (self._patience if one.trouble.is_usual else 0.0):
                one.is_reported = True
                yield ProblemChange(one.trouble, False, stands)


async def watch_problems(members: MemberSource, stop: Stop, stall_after: float) -> None:
    """Check regularly until the service stops. Problems while it stops are expected."""
    progress, troubles = ProgressTracker(), ProblemLog(stall_after)
    is_broken = False
    while not stop.is_requested:
        try:
            now, heard = trio.current_time(), members.statuses()
            progress.update([one.snapshot for one in heard if one.snapshot is not None], now)
            log_problems(troubles.update(health(heard, progress, now, stall_after=stall_after).troubles, now))
        except Exception:
            if not is_broken:  # who watches may not end what is watched
                logger.exception("the health of the service cannot be checked")
            is_broken = True
        with trio.move_on_after(INTERVAL):
            await stop.wait()


def log_problems(news: Iterable[ProblemChange]) -> None:
    """Log the changes: a warning for each new problem, a line for each that is over, at most `MOST` of each."""
    comes, over = list[ProblemChange](), list[ProblemChange]()
    for one in news:
        (over if one.is_over else comes).append(one)
    for changes, level in ((over, logging.INFO), (comes, logging.WARNING)):
        for one in changes[:MOST]:
            logger.log(level, "%s", _words(one), extra={"fields": _fields(one)})
        if len(changes) > MOST:
            logger.log(level, "and %d more like these; /readyz has them all", len(changes) - MOST)


def _words(news: ProblemChange) -> str:
    trouble = news.trouble
    return f"over after {news.seconds:.0f} s: {trouble.about}" if news.is_over else f"{trouble.kind}: {trouble.line}"


def _fields(news: ProblemChange) -> dict[str, Any]:
    trouble = news.trouble
    fields: dict[str, Any] = {"worker": trouble.worker, "reason": trouble.about}
    if trouble.partition is not None:
        fields["partition"] = trouble.partition
    return fields | {"seconds": news.seconds} if news.is_over else fields
