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
    """A partition's offsets and counters, and the time since when they are the same."""

    moved: tuple[int, ...]
    at: float


class ProgressTracker:
    """Times of each partition's last progress, and of each member's last membership."""

    def __init__(self) -> None:
        self._seen: dict[_Key, _Seen] = {}
        self._member_at: dict[int, float] = {}

    def update(self, members: Iterable[MemberSnapshot], now: float) -> None:
        """Compare with the members' new snapshots. Call it at least every few seconds."""
        seen: dict[_Key, _Seen] = {}
        member_at: dict[int, float] = {}
        for member in members:
            if member.status.state in MEMBER:
                member_at[member.worker] = now
            elif member.status.state in REBALANCING and member.worker in self._member_at:
                member_at[member.worker] = self._member_at[member.worker]
            for one in member.status.partitions:
                key, moved = (member.worker, one.partition), _moved(one)
                before = self._seen.get(key)
                at = now if before is None or before.moved != moved else before.at
                seen[key] = _Seen(moved, max(at, _rested_at(one, now)))
        self._seen, self._member_at = seen, member_at

    def stalled_seconds(self, worker: int, partition: TopicPartition, now: float) -> float:
        """Return the seconds without progress; 0 for an unknown partition."""
        found = self._seen.get((worker, partition))
        return 0.0 if found is None else now - found.at

    def rebalance_seconds(self, worker: int, now: float) -> float | None:
        """Return the seconds since the last membership, through all states since; None without any."""
        found = self._member_at.get(worker)
        return None if found is None else now - found


def _moved(one: PartitionStatus) -> tuple[int, ...]:
    """Return the numbers that move with progress. Marks and written batches count: one large batch may take long."""
    return (one.position, one.marked, one.committed, one.landed, one.records_total)


def _rested_at(one: PartitionStatus, now: float) -> float:
    """Return when the partition last had nothing to do.

    It has nothing to do while paused, or while its handler waits and a broker has said that the log has no more.
    Unmarked messages do not count: a handler may never mark them.
    """
    if one.activity is Activity.PAUSED:
        return now
    is_at_rest = one.activity is Activity.FETCHING and one.lag == 0 and one.asked_seconds >= 0
    return now - one.asked_seconds if is_at_rest else -math.inf
