"""Numbering of a group's members, partitions and topics for balancing, and the possible takers of each partition.

Members are numbered in Kafka's order (`base.in_order`), partitions by topic name and number. Topics with the same
subscribers form one *pool*: for balance it does not matter which of them a partition belongs to. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sarameya.model import Assignment
from sarameya.protocol.assignors.base import Subscription, TopicLayout, in_order, subscribed_topics
from sarameya.protocol.assignors.partition_moves import bits, union

NOBODY = -1
"""Owner of a partition without an owner."""


class GroupIndex:
    """The numbering of one `assign` call. Subscribed topics that do not exist are left out."""

    def __init__(self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]) -> None:
        self.members = in_order(members)
        self.topics = subscribed_topics(members.values(), topics)
        self.racks = [members[member].rack_id for member in self.members]
        """Member -> its rack, empty if it named none."""
        self.takers: list[frozenset[int]] = []
        """Pool -> the members that may take its partitions."""
        self.taker_bits: list[int] = []
        """Pool -> the same members, as a bit set (see `partition_moves`)."""
        self.pools: list[Sequence[int]] = [()] * len(self.members)
        """Member -> the pools that it may take partitions of."""
        self.pool_of: list[int] = []
        """Partition -> its pool."""
        self._first: dict[str, int] = {}
        self._counts = {topic: topics[topic].partitions for topic in self.topics}
        self._subscribed = [frozenset(members[member].topics) for member in self.members]
        self._number_partitions()

    def _number_partitions(self) -> None:
        alike: dict[frozenset[str], list[int]] = {}
        for member, subscribed in enumerate(self._subscribed):
            alike.setdefault(subscribed, []).append(member)
        sorts_by_topic: dict[str, list[int]] = {topic: [] for topic in self.topics}
        sorts = list(alike.values())
        for sort, subscribed in enumerate(alike):
            for topic in subscribed:
                if topic in sorts_by_topic:
                    sorts_by_topic[topic].append(sort)
        pools: dict[tuple[int, ...], int] = {}
        for topic in self.topics:
            pool = pools.setdefault(tuple(sorts_by_topic[topic]), len(pools))
            self._first[topic] = len(self.pool_of)
            self.pool_of += [pool] * self._counts[topic]
        bits_by_sort = [bits(members) for members in sorts]
        pools_by_sort: list[list[int]] = [[] for _ in sorts]
        for key, pool in pools.items():
            self.takers.append(frozenset(member for sort in key for member in sorts[sort]))
            self.taker_bits.append(union(bits_by_sort[sort] for sort in key))
            for sort in key:
                pools_by_sort[sort].append(pool)
        for sort, members in enumerate(sorts):
            for member in members:
                self.pools[member] = pools_by_sort[sort]

    def pool(self, topic: str) -> int:
        """Return the pool of a topic with partitions."""
        return self.pool_of[self._first[topic]]

    def partition(self, topic: str, number: int) -> int | None:
        """Return the number of the partition here, or None if it does not exist or nobody subscribes to it."""
        return self._first[topic] + number if 0 <= number < self._counts.get(topic, 0) else None

    def wanted(self, member: int, assignment: Assignment) -> Iterator[int]:
        """Yield the existing partitions of `assignment` whose topics the member subscribes to."""
        for topic, numbers in assignment.items():
            if topic in self._subscribed[member]:
                for number in numbers:
                    if (partition := self.partition(topic, number)) is not None:
                        yield partition

    def by_number(self) -> list[int]:
        """Return all partitions, sorted by their number in their topic, then by topic."""
        numbers = [number for topic in self.topics for number in range(self._counts[topic])]
        return sorted(range(len(numbers)), key=numbers.__getitem__)

    def replica_racks(self, topics: Mapping[str, TopicLayout]) -> list[frozenset[str]]:
        """Return the racks of each partition's replicas, empty if unknown."""
        return [racks for topic in self.topics for racks in topics[topic].replica_racks()]

    def assignments(self, owners: Sequence[int]) -> dict[str, Assignment]:
        """Convert owners to assignments by member id; partitions owned by NOBODY are left out."""
        found: list[dict[str, list[int]]] = [{} for _ in self.members]
        for topic in self.topics:
            first = self._first[topic]
            for number, owner in enumerate(owners[first : first + self._counts[topic]]):
                if owner != NOBODY:
                    found[owner].setdefault(topic, []).append(number)
        return {
            member: {topic: tuple(numbers) for topic, numbers in rows.items()}
            for member, rows in zip(self.members, found, strict=True)
        }
