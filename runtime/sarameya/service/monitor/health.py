"""Readiness and liveness with their reasons, for `/readyz` and `/healthz`. Pure.

A service is ready if each member belongs to the group and each partition makes progress, or is paused. A partition
without progress, a rebalance of a former member, and a commit have `stall_after` seconds each, whatever their own state
says. The coordinator decides who is a member: if it has not answered for the session timeout, it may have removed the
member without the member's knowledge. A service is alive if each worker has reported lately. A process whose event loop
stands still answers nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from textwrap import indent

import attrs

from sarameya.model import TopicPartition
from sarameya.service.monitor.members import WorkerStatus
from sarameya.service.monitor.progress_tracker import MEMBER, REBALANCING, ProgressTracker
from sarameya.status import Activity, GroupStatus, PartitionStatus

SILENT_AFTER = 10.0
"""Seconds without a report after which a worker counts as silent. Reports come each second."""
_MOST_STACKS = 10
_GIVEN_UP = "the group may have given its partitions to others"


@attrs.frozen(slots=True)
class HealthReason:
    """A remark about a member. `is_bad` means that it keeps the member from being ready."""

    line: str
    is_bad: bool
    about: str = ""
    """The part of `line` that stays the same as long as the reason lasts. Empty if the log has the reason already."""
    partition: TopicPartition | None = None
    is_usual: bool = False
    """The reason is usual for a while, as at each start."""


@attrs.frozen(slots=True)
class HealthProblem:
    """A reason that belongs in the log; `process/problem_log.py` logs it once."""

    kind: str
    """`not ready` or `not alive`."""
    worker: int
    about: str
    line: str
    partition: TopicPartition | None = None
    is_usual: bool = False


@attrs.frozen(slots=True)
class Health:
    """Readiness and liveness of a service; each reason is a line."""

    not_ready: tuple[str, ...]
    not_alive: tuple[str, ...]
    explained: tuple[str, ...] = ()
    """Remarks about what makes no progress and may do so: paused, rebalancing, at work for less than `stall_after`."""
    troubles: tuple[HealthProblem, ...] = ()
    """Problems among the reasons that are not expected."""
    stacks: tuple[str, ...] = ()
    """The stacks of overdue handlers, each below its line."""

    @property
    def is_ready(self) -> bool:
        return not self.not_ready

    @property
    def is_alive(self) -> bool:
        return not self.not_alive


def health(
    members: Sequence[WorkerStatus], progress: ProgressTracker, now: float, *, stall_after: float, stopping: str = ""
) -> Health:
    """Return the health of a service.

    Args:
        members: The state of each member.
        progress: Times of the last progress.
        now: The time on the event loop's clock.
        stall_after: Seconds without progress until a partition or a rebalance is a problem.
        stopping: The reason why the service stops. It is not ready any more then.
    """
    bad: list[str] = [f"stopping: {stopping}"] if stopping else []
    explained: list[str] = []
    troubles: list[HealthProblem] = []
    if not members:
        bad.append("no member has started")
    for heard in members:
        who = f"worker {heard.worker}: " if len(members) > 1 else ""
        for one in _reasons(heard, progress, now, stall_after):
            (bad if one.is_bad else explained).append(who + one.line)
            if one.is_bad and one.about:
                problem = (who + one.about, who + one.line, one.partition, one.is_usual)
                troubles.append(HealthProblem("not ready", heard.worker, *problem))
    silent = [*_silent(members, stall_after)]
    return Health(
        not_ready=tuple(bad),
        not_alive=tuple(one.line for one in silent),
        explained=tuple(explained),
        troubles=(*troubles, *silent),
        stacks=tuple(islice(_stacks(members), _MOST_STACKS)),
    )


def _stacks(members: Iterable[WorkerStatus]) -> Iterator[str]:
    for heard in members:
        if heard.snapshot is None or heard.age > SILENT_AFTER:
            continue
        for one in heard.snapshot.status.partitions:
            if one.overdue is not None and one.overdue.stack:
                yield f"{one.overdue}; its stack:\n{indent(one.overdue.stack.rstrip(), '    ')}"


def _silent(members: Iterable[WorkerStatus], limit: float) -> Iterator[HealthProblem]:
    for heard in members:
        if heard.age > max(limit, SILENT_AFTER):
            about = f"worker {heard.worker} has not reported"
            yield HealthProblem("not alive", heard.worker, about, f"{about} for {heard.age:.0f} s")


def _reasons(heard: WorkerStatus, progress: ProgressTracker, now: float, stall_after: float) -> Iterator[HealthReason]:
    if heard.snapshot is None:
        yield HealthReason(_not_begun(heard), True)
        return
    if heard.age > SILENT_AFTER:
        yield HealthReason(_quiet(heard), True, "it has not reported")
        return  # what it said before is not known to be true any more
    status = heard.snapshot.status
    if heard.failure:
        yield HealthReason(f"it has failed: {_failure(heard)}", True)
    elif status.state in REBALANCING and (lasts := progress.rebalance_seconds(heard.worker, now)) is not None:
        about = "the group has rebalanced"
        yield HealthReason(f"{about} for {lasts:.0f} s: {_words(status.state)}", lasts > stall_after, about)
    elif status.state not in MEMBER:
        about = f"no member of {status.group}"
        yield HealthReason(f"{about}: {_words(status.state)} for {status.seconds:.0f} s", True, about, is_usual=True)
    elif status.coordinator_seconds > status.session_timeout:
        about = "the coordinator has not answered"
        yield HealthReason(f"{about} for {status.coordinator_seconds:.0f} s: {_GIVEN_UP}", True, about)
    if 0 <= status.blocked_ago <= status.session_timeout:
        line = f"the event loop was blocked for {status.blocked_seconds:.0f} s, {status.blocked_ago:.0f} s ago"
        yield HealthReason(
            f"{line}: no heartbeat could be sent; {status.blocked_at}", True
        )  # LoopBlocked is in the log
    yield from _of_partitions(status, heard.worker, progress, now, stall_after)


def _of_partitions(
    status: GroupStatus, worker: int, progress: ProgressTracker, now: float, stall_after: float
) -> Iterator[HealthReason]:
    for one in status.partitions:
        stands = progress.stalled_seconds(worker, one.partition, now)
        if one.uncommitted_seconds > stall_after:
            about = f"{one.partition}: no commit succeeds"
            line = f"{about}, for {one.uncommitted_seconds:.0f} s: {described(one)}"
            yield HealthReason(line, True, about, one.partition)
        elif one.activity is Activity.PAUSED:
            yield HealthReason(f"{one.partition}: paused for {one.seconds:.0f} s", False)
        elif stands > stall_after:
            about = f"{one.partition}: no progress"
            yield HealthReason(f"{about} for {stands:.0f} s: {described(one)}", True, about, one.partition)
        elif one.overdue is not None or one.activity not in (Activity.FETCHING, Activity.IN_HANDLER):
            yield HealthReason(f"{one.partition}: {described(one)}", False)


def described(one: PartitionStatus) -> str:
    """Return a partition's activity in words: `retrying, try 3 of 5, for 12 s: not the leader`."""
    most = f" of {one.attempts}" if one.attempts else ""
    tries = f", try {one.attempt}{most}," if one.attempt else ""
    since = "" if one.activity is Activity.STARTING else f" for {one.seconds:.0f} s"  # its time is unknown
    why = f": {one.reason}" if one.reason else ""
    return f"{one.activity}{tries}{since}{why}"


def _not_begun(heard: WorkerStatus) -> str:
    if heard.failure:
        return _failure(heard)
    return _quiet(heard) if heard.age > SILENT_AFTER else "its handler is starting"


def _failure(heard: WorkerStatus) -> str:
    return heard.failure if heard.restart is None else f"{heard.failure}; {heard.restart}"


def _quiet(heard: WorkerStatus) -> str:
    return f"it has not reported for {heard.age:.0f} s"


def _words(state: str) -> str:
    return state.lower().replace("_", " ")
