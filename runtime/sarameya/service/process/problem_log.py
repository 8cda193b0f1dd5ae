"""Problems of readiness and liveness in the log: one line when a problem starts, one when it is over.

The log must report a stalled partition even if `/readyz` is not served, or not requested. `ProblemLog` decides what to
report, and is pure. `watch_problems` runs it. The watchdog is another task, which ends a process that cannot recover.
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
"""Seconds without a problem until it counts as over. An intermittent problem is reported once."""
MAX_LINES = 10
"""Lines of each kind per check: a frozen broker may stall a thousand partitions."""

_Key = tuple[str, int, str]


@attrs.frozen(slots=True)
class ProblemChange:
    """A problem that has started, or is over after `seconds`."""

    problem: HealthProblem
    is_over: bool
    seconds: float


@attrs.define(slots=True)
class _PresentProblem:
    problem: HealthProblem
    since: float
    seen: float
    is_reported: bool = False


class ProblemLog:
    """The present problems, and which of them are reported. A usual problem is reported after `patience` seconds."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._present: dict[_Key, _PresentProblem] = {}

    def update(self, problems: Iterable[HealthProblem], now: float) -> list[ProblemChange]:
        """Return the changes to report, given all problems at `now`."""
        for problem in problems:
            key = (problem.kind, problem.worker, problem.about)
            found = self._present.setdefault(key, _PresentProblem(problem, now, now))
            found.problem, found.seen = problem, now
        return [*self._over(now), *self._new(now)]

    def _over(self, now: float) -> Iterator[ProblemChange]:
        for key, present in [*self._present.items()]:
            if present.seen < now and not (present.is_reported and now - present.seen < CALM):
                del self._present[key]
                if present.is_reported:
                    yield ProblemChange(present.problem, True, present.seen - present.since)

    def _new(self, now: float) -> Iterator[ProblemChange]:
        for present in self._present.values():
            lasted = now - present.since
            if not present.is_reported and lasted >= (self._patience if present.problem.is_usual else 0.0):
                present.is_reported = True
                yield ProblemChange(present.problem, False, lasted)


async def watch_problems(members: MemberSource, stop: Stop, stall_after: float) -> None:
    """Check regularly until the service stops. Problems while it stops are expected."""
    progress, log = ProgressTracker(), ProblemLog(stall_after)
    is_broken = False
    while not stop.is_requested:
        try:
            now, statuses = trio.current_time(), members.statuses()
            progress.update([status.snapshot for status in statuses if status.snapshot is not None], now)
            log_problems(log.update(health(statuses, progress, now, stall_after=stall_after).problems, now))
        except Exception:
            if not is_broken:  # a failed check must not end the service
                logger.exception("the health of the service cannot be checked")
            is_broken = True
        with trio.move_on_after(INTERVAL):
            await stop.wait()


def log_problems(changes: Iterable[ProblemChange]) -> None:
    """Log the changes: a warning for each new problem, a line for each that is over, at most `MAX_LINES` of each."""
    new, over = list[ProblemChange](), list[ProblemChange]()
    for change in changes:
        (over if change.is_over else new).append(change)
    for alike, level in ((over, logging.INFO), (new, logging.WARNING)):
        for change in alike[:MAX_LINES]:
            logger.log(level, "%s", _text(change), extra={"fields": _fields(change)})
        if len(alike) > MAX_LINES:
            logger.log(level, "and %d more like these; /readyz has them all", len(alike) - MAX_LINES)


def _text(change: ProblemChange) -> str:
    if change.is_over:
        return f"resolved after {change.seconds:.0f} s: {change.problem.about}"
    return f"{change.problem.kind}: {change.problem.line}"


def _fields(change: ProblemChange) -> dict[str, Any]:
    problem = change.problem
    fields: dict[str, Any] = {"worker": problem.worker, "reason": problem.about}
    if problem.partition is not None:
        fields["partition"] = problem.partition
    return fields | {"seconds": change.seconds} if change.is_over else fields
