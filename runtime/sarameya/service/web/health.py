"""Ready or not, and why: what `/readyz` and `/healthz` say. Pure.

Ready: each member is one of the group, and each of its partitions gets on, or is paused. A partition that does not is
given `stall_after` seconds, whatever it says of itself, and so is a rebalance of who was a member. Alive: each worker
has told of itself lately; a process whose event loop does not turn answers nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from sarameya.service.web.members import Heard
from sarameya.service.web.progress import MEMBER, REBALANCING, ProgressTracker
from sarameya.status import Activity, GroupStatus, PartitionStatus

SILENT_AFTER = 10.0
"""Seconds after which a worker that tells each second is taken for silent."""


@attrs.frozen(slots=True)
class Health:
    """Each reason is a line."""

    not_ready: tuple[str, ...]
    not_alive: tuple[str, ...]
    explained: tuple[str, ...] = ()
    """What does not get on, and need not or has time to: paused, rebalancing, at work for less than `stall_after`."""

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
    if not members:
        bad.append("no member has begun")
    for heard in members:
        who = f"worker {heard.worker}: " if len(members) > 1 else ""
        for line, is_bad in _reasons(heard, progress, now, stall_after):
            (bad if is_bad else explained).append(who + line)
    return Health(tuple(bad), tuple(_silent(members, stall_after)), tuple(explained))


def _silent(members: Iterable[Heard], limit: float) -> Iterator[str]:
    for heard in members:
        if heard.age > max(limit, SILENT_AFTER):
            yield f"worker {heard.worker} has not told of itself for {heard.age:.0f} s"


def _reasons(heard: Heard, progress: ProgressTracker, now: float, stall_after: float) -> Iterator[tuple[str, bool]]:
    """What is to be said of a member, and whether that keeps it from being ready."""
    if heard.snapshot is None:
        yield _not_begun(heard), True
        return
    if heard.age > SILENT_AFTER:
        yield _quiet(heard), True
    status = heard.snapshot.status
    if heard.failure:
        yield f"it has failed: {_failure(heard)}", True
    elif status.state in REBALANCING and (lasts := progress.rebalances_for(heard.worker, now)) is not None:
        yield f"the group has rebalanced for {lasts:.0f} s: {_words(status.state)}", lasts > stall_after
    elif status.state not in MEMBER:
        yield f"no member of {status.group}: {_words(status.state)} for {status.seconds:.0f} s", True
    yield from _of_partitions(status, heard.worker, progress, now, stall_after)


def _of_partitions(
    status: GroupStatus, worker: int, progress: ProgressTracker, now: float, stall_after: float
) -> Iterator[tuple[str, bool]]:
    for one in status.partitions:
        stands = progress.stands_for(worker, one.partition, now)
        if one.activity is Activity.PAUSED:
            yield f"{one.partition}: paused for {one.seconds:.0f} s", False
        elif stands > stall_after:
            yield f"{one.partition}: no progress for {stands:.0f} s: {described(one)}", True
        elif one.activity not in (Activity.FETCHING, Activity.IN_HANDLER):
            yield f"{one.partition}: {described(one)}", False


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
