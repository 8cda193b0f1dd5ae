"""Progress of partitions, measured by offsets and counters that move. Pure; `now` is an argument."""

from __future__ import annotations

import math
from collections.abc import Iterable

import attrs

from sarameya.model import TopicPartition
from sarameya.protocol.membership.states import State
from sarameya.status import Activity, PartitionStatus
from sarameya.telemetry.snapshot import MemberSnapshot

MEMBER = frozenset({State.STABLE.name, State.REVOKING.name})
"""States of a member."""
REBALANCING = frozenset({State.PREPARING_REBALANCE.name, State.COMPLETING_REBALANCE.name, State.LOST.name})
"""States of a former or future member that takes part in a rebalance."""

_Key = tuple[int, TopicPartition]


@attrs.frozen(slots=True)
class _Seen:
    """A partition's offsets and counters, and the time of its last progress."""

    moved: tuple[int, ...]
    at: float


class ProgressTracker:
    """Times of each partition's last progress, and of each member's last membership."""

    def __init__(self) -> None:
        self._seen: dict[_Key, _Seen] = {}
        self._member_at: dict[int, float] = {}

    def update(self, members: Iterable[MemberSnapshot], now: float) -> None:
        """Compare the members' new snapshots with the last ones. Call this at least every few seconds."""
        seen: dict[_Key, _Seen] = {}
        member_at: dict[int, float] = {}
        for member in members:
            if member.status.state in MEMBER:
                member_at[member.worker] = now
            elif member.status.state in REBALANCING and member.worker in self._member_at:
                member_at[member.worker] = self._member_at[member.worker]
            for row in member.status.partitions:
                key, moved = (member.worker, row.partition), _moved(row)
                before = self._seen.get(key)
                at = now if before is None or before.moved != moved else before.at
                seen[key] = _Seen(moved, max(at, _idle_at(row, now)))
        self._seen, self._member_at = seen, member_at

    def stalled_seconds(self, worker: int, partition: TopicPartition, now: float) -> float:
        """Return the seconds without progress; 0 for an unknown partition."""
        found = self._seen.get((worker, partition))
        return 0.0 if found is None else now - found.at

    def rebalance_seconds(self, worker: int, now: float) -> float | None:
        """Return the seconds since the worker was last a member; None if it was no member before this rebalance."""
        found = self._member_at.get(worker)
        return None if found is None else now - found


def _moved(row: PartitionStatus) -> tuple[int, ...]:
    """Return the numbers that change with progress. Marks and written batches count: a large batch may take long."""
    return (row.position, row.marked, row.committed, row.landed, row.records_total)


def _idle_at(row: PartitionStatus, now: float) -> float:
    """Return the last time at which the partition had nothing to do.

    It has nothing to do while it is paused, or while its handler waits and a broker has reported the end of the log.
    Unmarked messages do not count: a handler may never mark them.
    """
    if row.activity is Activity.PAUSED:
        return now
    is_idle = row.activity is Activity.FETCHING and row.lag == 0 and row.asked_seconds >= 0
    return now - row.asked_seconds if is_idle else -math.inf
