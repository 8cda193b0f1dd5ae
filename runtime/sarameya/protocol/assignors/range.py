"""Range assignor: for each topic, each member gets one run of adjacent partitions.

Topics with equal partition counts and subscribers are co-partitioned: partition n of each goes to the same member. The
disadvantage: the first members get the extra partition of *every* topic. With racks (KIP-881), counts and
co-partitioning stay the same, but a member's partitions need not be adjacent: those that match its rack come first.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence

from sarameya.model import Assignment
from sarameya.protocol.assignors.base import Assignor, Subscription, TopicLayout
from sarameya.protocol.assignors.group_index import GroupIndex
from sarameya.protocol.assignors.rack_matching import worthwhile

Racks = Sequence[frozenset[str]]
"""Partition -> the racks of its replicas, empty if unknown."""


class RangeAssignor(Assignor):
    """Assignor that divides the P partitions of each topic evenly among its C members.

    P % C members get P // C + 1 partitions, the others P // C. Without racks the first members get one more. The result
    is exactly that of Kafka's own range assignor.
    """

    name = "range"

    def assign(self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]) -> dict[str, Assignment]:
        index = GroupIndex(members, topics)
        # (pool, partition count) -> the co-partitioned topics. A pool is a set of topics with the same subscribers.
        co_partitioned: dict[tuple[int, int], list[str]] = {}
        for topic in index.topics:
            if count := topics[topic].partitions:
                co_partitioned.setdefault((index.pool(topic), count), []).append(topic)

        takers = [sorted(pool) for pool in index.takers]
        racks = [[index.racks[member] for member in pool] for pool in takers]
        divisions = [
            _Division(racks[pool], [topics[topic].replica_racks() for topic in names])
            for (pool, _), names in co_partitioned.items()
        ]
        use_racks = any(division.needs_racks for division in divisions)
        assigned: list[dict[str, tuple[int, ...]]] = [{} for _ in index.members]
        for ((pool, _), names), division in zip(co_partitioned.items(), divisions, strict=True):
            for place, numbers in division.assign(use_racks).items():
                assigned[takers[pool][place]].update(dict.fromkeys(names, tuple(sorted(numbers))))
        return {member: dict(sorted(rows.items())) for member, rows in zip(index.members, assigned, strict=True)}


class _Division:
    """Division of partition numbers among the members of co-partitioned topics. Members are numbered in Kafka's order.

    Args:
        member_racks: Rack of each member.
        topics: Replica racks of each topic's partitions.
    """

    def __init__(self, member_racks: Sequence[str], topics: Sequence[Racks]) -> None:
        self.needs_racks = any(worthwhile(member_racks, racks) for racks in topics)
        self._member_racks = member_racks
        self._topics = topics
        self._share, self._extra = divmod(len(topics[0]), len(member_racks))
        self._free = [True] * len(topics[0])
        self._assigned: defaultdict[int, list[int]] = defaultdict(list)

    def assign(self, use_racks: bool) -> Mapping[int, Sequence[int]]:
        """Return the partition numbers of each member that gets any.

        Args:
            use_racks: True if any topic of the group needs racks.
        """
        if use_racks and len(self._topics) > 1:
            self._match_numbers()
        elif self.needs_racks:
            self._match_members()
        rest = iter([number for number, free in enumerate(self._free) if free])
        for member in range(len(self._member_racks)):
            if self._fill(member, rest):
                break
        return self._assigned

    def _match_members(self) -> None:
        """Assign to each member in turn the numbers that match its rack. For one topic.

        All numbers match a member without a rack.
        """
        matching: dict[str, list[int]] = {"": list(range(len(self._free)))}
        for number, racks in enumerate(self._topics[0]):
            for rack in racks:
                matching.setdefault(rack, []).append(number)
        queues = {rack: iter(numbers) for rack, numbers in matching.items()}
        for member, rack in enumerate(self._member_racks):
            self._fill(member, queues.get(rack, iter(())))

    def _match_numbers(self) -> None:
        """Assign each number in turn to the first member with room whose rack matches in all topics, or is unknown."""
        waiting: dict[str, deque[int]] = {}
        for member, rack in enumerate(self._member_racks):
            waiting.setdefault(rack, deque()).append(member)
        for number, racks in enumerate(zip(*self._topics, strict=True)):
            matching = [waiting[rack] for rack in frozenset.intersection(*racks) | {""} if rack in waiting]
            for members in matching:
                while members and not self._has_room(members[0]):
                    members.popleft()
            if first := [members[0] for members in matching if members]:
                self._take(min(first), number)

    def _fill(self, member: int, numbers: Iterator[int]) -> bool:
        """Assign free numbers to the member while it has room. Return True when there are no more numbers."""
        while self._has_room(member):
            number = next((number for number in numbers if self._free[number]), None)
            if number is None:
                return True
            self._take(member, number)
        return False

    def _has_room(self, member: int) -> bool:
        return len(self._assigned.get(member, ())) < self._share + (self._extra > 0)

    def _take(self, member: int, number: int) -> None:
        self._assigned[member].append(number)
        self._free[number] = False
        self._extra -= len(self._assigned[member]) > self._share
