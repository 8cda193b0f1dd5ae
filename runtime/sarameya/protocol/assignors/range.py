"""Range assignor: for each topic, each member gets one run of adjacent partitions.

Topics with equal partition counts and subscribers are co-partitioned: partition n of each goes to the same member. The
price: the first members get the extra partition of *every* topic. If racks are used (KIP-881), counts and
co-partitioning stay, but runs have gaps: partitions that match a member's rack are assigned first.
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
    """Assignor that divides each topic evenly: P % C of C members get P // C + 1 of P partitions, the others P // C.

    Without racks the first members get one more. The result is exactly that of Kafka's own range assignor.
    """

    name = "range"

    def assign(self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]) -> dict[str, Assignment]:
        index = GroupIndex(members, topics)
        alike: dict[tuple[int, int], list[str]] = {}
        for topic in index.topics:
            if count := topics[topic].partitions:
                alike.setdefault((index.pool(topic), count), []).append(topic)

        takers = [sorted(pool) for pool in index.takers]
        racks = [[index.racks[member] for member in pool] for pool in takers]
        deals = [
            _Deal(racks[pool], [topics[topic].replica_racks() for topic in co_partitioned])
            for (pool, _), co_partitioned in alike.items()
        ]
        heed_racks = any(deal.needs_racks for deal in deals)
        assigned: list[dict[str, tuple[int, ...]]] = [{} for _ in index.members]
        for ((pool, _), co_partitioned), deal in zip(alike.items(), deals, strict=True):
            for place, numbers in deal.dealt(heed_racks).items():
                assigned[takers[pool][place]].update(dict.fromkeys(co_partitioned, tuple(sorted(numbers))))
        return {member: dict(sorted(rows.items())) for member, rows in zip(index.members, assigned, strict=True)}


class _Deal:
    """Assignment of partition numbers to members (by their place in order), for all co-partitioned topics."""

    def __init__(self, member_racks: Sequence[str], topics: Sequence[Racks]) -> None:
        self.needs_racks = any(worthwhile(member_racks, racks) for racks in topics)
        self._member_racks = member_racks
        self._topics = topics
        self._share, self._extra = divmod(len(topics[0]), len(member_racks))
        self._free = [True] * len(topics[0])
        self._dealt: defaultdict[int, list[int]] = defaultdict(list)

    def dealt(self, heed_racks: bool) -> Mapping[int, Sequence[int]]:
        """Return the partition numbers of each member that has any.

        `heed_racks`: some topic of the group needs racks.
        """
        if heed_racks and len(self._topics) > 1:
            self._match_numbers()
        elif self.needs_racks:
            self._match_members()
        rest = iter([number for number, free in enumerate(self._free) if free])
        for member in range(len(self._member_racks)):
            if self._fill(member, rest):
                break
        return self._dealt

    def _match_members(self) -> None:
        """Give one member after another the numbers that match it (one topic)."""
        matching: dict[str, list[int]] = {"": list(range(len(self._free)))}
        for number, racks in enumerate(self._topics[0]):
            for rack in racks:
                matching.setdefault(rack, []).append(number)
        queues = {rack: iter(numbers) for rack, numbers in matching.items()}
        for member, rack in enumerate(self._member_racks):
            self._fill(member, queues.get(rack, iter(())))

    def _match_numbers(self) -> None:
        """Give one number after another to the first member that matches it in all topics."""
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
        """Give the member free numbers while it has room. Return True when there are no more numbers."""
        while self._has_room(member):
            number = next((number for number in numbers if self._free[number]), None)
            if number is None:
                return True
            self._take(member, number)
        return False

    def _has_room(self, member: int) -> bool:
        return len(self._dealt.get(member, ())) < self._share + (self._extra > 0)

    def _take(self, member: int, number: int) -> None:
        self._dealt[member].append(number)
        self._free[number] = False
        self._extra -= len(self._dealt[member]) > self._share
