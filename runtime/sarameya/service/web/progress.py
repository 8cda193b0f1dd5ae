"""Whether partitions get on: measured, by what moves, and not by what is said. Pure; `now` is an argument."""

from __future__ import annotations

import math
from collections.abc import Iterable

import attrs

from sarameya.model import TopicPartition
from sarameya.protocol.membership_states import State
from sarameya.status import Activity, PartitionStatus
from sarameya.telemetry.snapshot import MemberSnapshot

MEMBER = frozenset({State.STABLE.name, State.REVOKING.name})
"""The states of who is a member."""
REBALANCING = frozenset({State.PREPARING_REBALANCE.name, State.COMPLETING_REBALANCE.name, State.LOST.name})
"""The states of who was one or is to be, and takes part in a rebalance."""

_Key = tuple[int, TopicPartition]


@attrs.frozen(slots=True)
class _Seen:
    """Where a partition stood, and since when it has."""

    moved: tuple[int, ...]
    at: float


class ProgressTracker:
    """Remembers when each partition of each member last got on, and when each member last was one."""

    def __init__(self) -> None:
        self._seen: dict[_Key, _Seen] = {}
        self._member_at: dict[int, float] = {}

    def see(self, members: Iterable[MemberSnapshot], now: float) -> None:
        """Look at them, at least each few seconds."""
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

    def stands_for(self, worker: int, partition: TopicPartition, now: float) -> float:
        """For how many seconds it has not got on; 0 for one that has not been seen."""
        found = self._seen.get((worker, partition))
        return 0.0 if found is None else now - found.at

    def rebalances_for(self, worker: int, now: float) -> float | None:
        """How many seconds ago the member last was one, through whatever states since; None for one that never was."""
        found = self._member_at.get(worker)
        return None if found is None else now - found


def _moved(one: PartitionStatus) -> tuple[int, ...]:
    """What moves where there is progress. A handler's marks are, of a batch that takes long; so is what lands."""
    return (one.position, one.marked, one.committed, one.landed, one.records_total)


def _rested_at(one: PartitionStatus, now: float) -> float:
    """When it last was known to have nothing to do: its handler waits for more, and a broker has said that there is
    none; or it is paused. What its handler has not marked does not count: that may be all it ever will."""
    if one.activity is Activity.PAUSED:
        return now
    is_at_rest = one.activity is Activity.FETCHING and one.lag == 0 and one.asked_seconds >= 0
    return now - one.asked_seconds if is_at_rest else -math.inf
