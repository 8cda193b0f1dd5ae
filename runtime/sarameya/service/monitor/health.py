"""Readiness and liveness with their reasons, for `/readyz` and `/healthz`. Pure.

A service is ready if each member belongs to the group and each partition makes progress, or is paused. A partition
without progress, a rebalance of a former member, and failing commits may last `stall_after` seconds each, whatever
state is reported. The coordinator decides who is a member: if it has not answered for the session timeout, it may have
removed the member without the member's knowledge. A service is alive if each worker has reported lately. A process with
a blocked event loop does not answer at all.
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
_MAX_STACKS = 10
_MAY_BE_REMOVED = "the group may have assigned its partitions to other members"


@attrs.frozen(slots=True)
class HealthReason:
    """A remark about a member. With `is_bad`, it is a reason why the member is not ready."""

    line: str
    is_bad: bool
    about: str = ""
    """The part of `line` that stays the same as long as the reason lasts. Empty if the log has the reason already."""
    partition: TopicPartition | None = None
    is_usual: bool = False
    """The reason is normal for a while, as at each start."""


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
    """Remarks about a lack of progress that is no problem: paused, rebalancing, busy for less than `stall_after`."""
    problems: tuple[HealthProblem, ...] = ()
    """The reasons that belong in the log."""
    stacks: tuple[str, ...] = ()
    """The stacks of overdue handlers, each below its line."""

    @property
    def is_ready(self) -> bool:
        return not self.not_ready


def health(
    members: Sequence[WorkerStatus], progress: ProgressTracker, now: float, *, stall_after: float, stopping: str = ""
) -> Health:
    """Return the health of a service.

    Args:
        members: The state of each member.
        progress: Times of the last progress.
        now: The time on the event loop's clock.
        stall_after: Seconds without progress until a partition or a rebalance is a problem.
        stopping: The reason why the service stops; empty if it does not. A stopping service is not ready.
    """
    bad: list[str] = [f"stopping: {stopping}"] if stopping else []
    explained: list[str] = []
    problems: list[HealthProblem] = []
    if not members:
        bad.append("no member has started")
    for member in members:
        who = f"worker {member.worker}: " if len(members) > 1 else ""
        for reason in _reasons(member, progress, now, stall_after):
            (bad if reason.is_bad else explained).append(who + reason.line)
            if reason.is_bad and reason.about:
                facts = (who + reason.about, who + reason.line, reason.partition, reason.is_usual)
                problems.append(HealthProblem("not ready", member.worker, *facts))
    silent = [*_silent(members, stall_after)]
    return Health(
        not_ready=tuple(bad),
        not_alive=tuple(problem.line for problem in silent),
        explained=tuple(explained),
        problems=(*problems, *silent),
        stacks=tuple(islice(_stacks(members), _MAX_STACKS)),
    )


def _stacks(members: Iterable[WorkerStatus]) -> Iterator[str]:
    for member in members:
        if member.snapshot is None or member.age > SILENT_AFTER:
            continue
        for status in member.snapshot.status.partitions:
            if status.overdue is not None and status.overdue.stack:
                yield f"{status.overdue}; its stack:\n{indent(status.overdue.stack.rstrip(), '    ')}"


def _silent(members: Iterable[WorkerStatus], limit: float) -> Iterator[HealthProblem]:
    for member in members:
        if member.age > max(limit, SILENT_AFTER):
            about = f"worker {member.worker} has not reported"
            yield HealthProblem("not alive", member.worker, about, f"{about} for {member.age:.0f} s")


def _reasons(member: WorkerStatus, progress: ProgressTracker, now: float, stall_after: float) -> Iterator[HealthReason]:
    if member.snapshot is None:
        yield HealthReason(_why_not_started(member), True)
        return
    if member.age > SILENT_AFTER:
        yield HealthReason(_silence(member), True, "it has not reported")
        return  # its last report may not be true any more
    status = member.snapshot.status
    if member.failure:
        yield HealthReason(f"it has failed: {_failure(member)}", True)
    elif status.state in REBALANCING and (lasts := progress.rebalance_seconds(member.worker, now)) is not None:
        about = "the group has rebalanced"
        yield HealthReason(f"{about} for {lasts:.0f} s: {_state_text(status.state)}", lasts > stall_after, about)
    elif status.state not in MEMBER:
        about = f"no member of {status.group}"
        line = f"{about}: {_state_text(status.state)} for {status.seconds:.0f} s"
        yield HealthReason(line, True, about, is_usual=True)
    elif status.coordinator_seconds > status.session_timeout:
        about = "the coordinator has not answered"
        yield HealthReason(f"{about} for {status.coordinator_seconds:.0f} s: {_MAY_BE_REMOVED}", True, about)
    if 0 <= status.blocked_ago <= status.session_timeout:
        blocked = f"the event loop was blocked for {status.blocked_seconds:.0f} s, {status.blocked_ago:.0f} s ago"
        # Without `about`, since the event LoopBlocked is in the log already.
        yield HealthReason(f"{blocked}: no heartbeat could be sent; {status.blocked_at}", True)
    yield from _of_partitions(status, member.worker, progress, now, stall_after)


def _of_partitions(
    status: GroupStatus, worker: int, progress: ProgressTracker, now: float, stall_after: float
) -> Iterator[HealthReason]:
    for row in status.partitions:
        stalled = progress.stalled_seconds(worker, row.partition, now)
        if row.uncommitted_seconds > stall_after:
            about = f"{row.partition}: no commit succeeds"
            line = f"{about}, for {row.uncommitted_seconds:.0f} s: {_activity_text(row)}"
            yield HealthReason(line, True, about, row.partition)
        elif row.activity is Activity.PAUSED:
            yield HealthReason(f"{row.partition}: paused for {row.seconds:.0f} s", False)
        elif stalled > stall_after:
            about = f"{row.partition}: no progress"
            yield HealthReason(f"{about} for {stalled:.0f} s: {_activity_text(row)}", True, about, row.partition)
        elif row.overdue is not None or row.activity not in (Activity.FETCHING, Activity.IN_HANDLER):
            yield HealthReason(f"{row.partition}: {_activity_text(row)}", False)


def _activity_text(row: PartitionStatus) -> str:
    """Return a partition's activity as text: `retrying, attempt 3 of 5, for 12 s: not the leader`."""
    most = f" of {row.attempts}" if row.attempts else ""
    attempt = f", attempt {row.attempt}{most}," if row.attempt else ""
    since = "" if row.activity is Activity.STARTING else f" for {row.seconds:.0f} s"  # its time is unknown
    why = f": {row.reason}" if row.reason else ""
    name = "revoking" if row.activity is Activity.REVOKING else row.activity
    return f"{name}{attempt}{since}{why}"


def _why_not_started(member: WorkerStatus) -> str:
    if member.failure:
        return _failure(member)
    return _silence(member) if member.age > SILENT_AFTER else "its handler is starting"


def _failure(member: WorkerStatus) -> str:
    return member.failure if member.restart is None else f"{member.failure}; {member.restart}"


def _silence(member: WorkerStatus) -> str:
    return f"it has not reported for {member.age:.0f} s"


def _state_text(state: str) -> str:
    return state.lower().replace("_", " ")
