"""Ready or not, and why: what `/readyz` and `/healthz` say. Pure.

Ready: each member is one of the group, and each of its partitions gets on, or is paused. A partition that does not is
given `stall_after` seconds, whatever it says of itself, and so is a rebalance of who was a member, and a commit. That
one is a member is the coordinator's to say: where it has not answered for the session timeout, it may have given up the
member, which would not know. Alive: each worker has told of itself lately; a process whose event loop does not turn
answers nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from textwrap import indent

import attrs

from sarameya.model import TopicPartition
from sarameya.service.web.members import Heard
from sarameya.service.web.progress import MEMBER, REBALANCING, ProgressTracker
from sarameya.status import Activity, GroupStatus, PartitionStatus

SILENT_AFTER = 10.0
"""Seconds after which a worker that tells each second is taken for silent."""
_MOST_STACKS = 10
_GIVEN_UP = "the group may have given its partitions to others"


@attrs.frozen(slots=True)
class Reason:
    """What is to be said of a member; `is_bad` if that keeps it from being ready."""

    line: str
    is_bad: bool
    about: str = ""
    """The same words for as long as it is the same reason, `line` as it is now. Empty where the log has it already."""
    partition: TopicPartition | None = None
    is_usual: bool = False
    """For a while, as with each start."""


@attrs.frozen(slots=True)
class Trouble:
    """A reason that whoever reads the log is to know of: `troubles.py` tells it once."""

    kind: str
    """`not ready` or `not alive`."""
    worker: int
    about: str
    line: str
    partition: TopicPartition | None = None
    is_usual: bool = False


@attrs.frozen(slots=True)
class Health:
    """Each reason is a line."""

    not_ready: tuple[str, ...]
    not_alive: tuple[str, ...]
    explained: tuple[str, ...] = ()
    """What does not get on, and need not or has time to: paused, rebalancing, at work for less than `stall_after`."""
    troubles: tuple[Trouble, ...] = ()
    """Of what is not ready or not alive, what is no matter of course."""
    stacks: tuple[str, ...] = ()
    """Where overdue handlers stand: a line of each, and its stack below."""

    @property
    def is_ready(self) -> bool:
        return not self.not_ready

    @property
    def is_alive(self) -> bool:
        return not self.not_alive


def health(
    members: Sequence[Heard], progress: ProgressTracker, now: float, *, stall_after: float, stopping: str = ""
) -> Health:
    """Of all members of a service. `stopping` says why it stops, if it does: it is not ready any more."""
    bad: list[str] = [f"stopping: {stopping}"] if stopping else []
    explained: list[str] = []
    troubles: list[Trouble] = []
    if not members:
        bad.append("no member has begun")
    for heard in members:
        who = f"worker {heard.worker}: " if len(members) > 1 else ""
        for one in _reasons(heard, progress, now, stall_after):
            (bad if one.is_bad else explained).append(who + one.line)
            if one.is_bad and one.about:
                told = (who + one.about, who + one.line, one.partition, one.is_usual)
                troubles.append(Trouble("not ready", heard.worker, *told))
    silent = [*_silent(members, stall_after)]
    return Health(
        not_ready=tuple(bad),
        not_alive=tuple(one.line for one in silent),
        explained=tuple(explained),
        troubles=(*troubles, *silent),
        stacks=tuple(islice(_stacks(members), _MOST_STACKS)),
    )


def _stacks(members: Iterable[Heard]) -> Iterator[str]:
    for heard in members:
        if heard.snapshot is None or heard.age > SILENT_AFTER:
            continue
        for one in heard.snapshot.status.partitions:
            if one.overdue is not None and one.overdue.stack:
                yield f"{one.overdue}; it stands at\n{indent(one.overdue.stack.rstrip(), '    ')}"


def _silent(members: Iterable[Heard], limit: float) -> Iterator[Trouble]:
    for heard in members:
        if heard.age > max(limit, SILENT_AFTER):
            about = f"worker {heard.worker} has not told of itself"
            yield Trouble("not alive", heard.worker, about, f"{about} for {heard.age:.0f} s")


def _reasons(heard: Heard, progress: ProgressTracker, now: float, stall_after: float) -> Iterator[Reason]:
    if heard.snapshot is None:
        yield Reason(_not_begun(heard), True)
        return
    if heard.age > SILENT_AFTER:
        yield Reason(_quiet(heard), True, "it has not told of itself")
        return  # what it said before is not known to be true any more
    status = heard.snapshot.status
    if heard.failure:
        yield Reason(f"it has failed: {_failure(heard)}", True)
    elif status.state in REBALANCING and (lasts := progress.rebalances_for(heard.worker, now)) is not None:
        about = "the group has rebalanced"
        yield Reason(f"{about} for {lasts:.0f} s: {_words(status.state)}", lasts > stall_after, about)
    elif status.state not in MEMBER:
        about = f"no member of {status.group}"
        yield Reason(f"{about}: {_words(status.state)} for {status.seconds:.0f} s", True, about, is_usual=True)
    elif status.coordinator_seconds > status.session_timeout:
        about = "the coordinator has not answered"
        yield Reason(f"{about} for {status.coordinator_seconds:.0f} s: {_GIVEN_UP}", True, about)
    if 0 <= status.blocked_ago <= status.session_timeout:
        line = f"the event loop was blocked for {status.blocked_seconds:.0f} s, {status.blocked_ago:.0f} s ago"
        yield Reason(f"{line}: no heartbeat could be sent; {status.blocked_at}", True)  # LoopBlocked is in the log
    yield from _of_partitions(status, heard.worker, progress, now, stall_after)


def _of_partitions(
    status: GroupStatus, worker: int, progress: ProgressTracker, now: float, stall_after: float
) -> Iterator[Reason]:
    for one in status.partitions:
        stands = progress.stands_for(worker, one.partition, now)
        if one.uncommitted_seconds > stall_after:
            about = f"{one.partition}: no commit is taken"
            line = f"{about}, for {one.uncommitted_seconds:.0f} s: {described(one)}"
            yield Reason(line, True, about, one.partition)
        elif one.activity is Activity.PAUSED:
            yield Reason(f"{one.partition}: paused for {one.seconds:.0f} s", False)
        elif stands > stall_after:
            about = f"{one.partition}: no progress"
            yield Reason(f"{about} for {stands:.0f} s: {described(one)}", True, about, one.partition)
        elif one.overdue is not None or one.activity not in (Activity.FETCHING, Activity.IN_HANDLER):
            yield Reason(f"{one.partition}: {described(one)}", False)


def described(one: PartitionStatus) -> str:
    """Its activity in words: `retrying, try 3 of 5, for 12 s: not the leader`."""
    most = f" of {one.attempts}" if one.attempts else ""
    tries = f", try {one.attempt}{most}," if one.attempt else ""
    since = "" if one.activity is Activity.STARTING else f" for {one.seconds:.0f} s"  # which it is not told of
    why = f": {one.reason}" if one.reason else ""
    return f"{one.activity}{tries}{since}{why}"


def _not_begun(heard: Heard) -> str:
    if heard.failure:
        return _failure(heard)
    return _quiet(heard) if heard.age > SILENT_AFTER else "its handler is starting"


def _failure(heard: Heard) -> str:
    return heard.failure if heard.restart is None else f"{heard.failure}; {heard.restart}"


def _quiet(heard: Heard) -> str:
    return f"it has not told of itself for {heard.age:.0f} s"


def _words(state: str) -> str:
    return state.lower().replace("_", " ")
