"""Numbers for a group's members and partitions, with which the assignors compute.

Members are numbered in Kafka's order (`base.in_order`), partitions by topic name and number. Topics with the same
subscribers form one *pool*: for balance it does not matter which of these topics a partition belongs to. A *taker* of a
pool is a member that subscribes to its topics, so it may get its partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sarameya.model import Assignment
from sarameya.protocol.assignors.base import Subscription, TopicLayout, in_order, subscribed_topics
from sarameya.protocol.assignors.partition_moves import bits, union

NOBODY = -1
"""In place of an owner: the partition has none."""


class GroupIndex:
    """The numbering of one `assign` call. Subscribed topics that do not exist are left out."""

    def __init__(self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]) -> None:
        self.members = in_order(members)
        self.topics = subscribed_topics(members.values(), topics)
        self.racks = [members[member].rack_id for member in self.members]
        """Member -> its rack, empty if it reports none."""
        self.takers: list[frozenset[int]] = []
        """Pool -> its takers."""
        self.taker_bits: list[int] = []
        """Pool -> its takers, as a bit set (see `partition_moves`)."""
        self.pools: list[Sequence[int]] = [()] * len(self.members)
        """Member -> the pools that it is a taker of."""
        self.pool_of: list[int] = []
        """Partition -> its pool."""
        self._first: dict[str, int] = {}
        self._counts = {topic: topics[topic].partitions for topic in self.topics}
        self._subscribed = [frozenset(members[member].topics) for member in self.members]
        self._number_partitions()

    def _number_partitions(self) -> None:
        # Members with equal subscriptions form a class. Classes are few, so the loops below are over classes.
        by_subscription: dict[frozenset[str], list[int]] = {}
        for member, subscribed in enumerate(self._subscribed):
            by_subscription.setdefault(subscribed, []).append(member)
        classes = list(by_subscription.values())
        classes_of_topic: dict[str, list[int]] = {topic: [] for topic in self.topics}
        for number, subscribed in enumerate(by_subscription):
            for topic in subscribed:
                if topic in classes_of_topic:
                    classes_of_topic[topic].append(number)
        pools: dict[tuple[int, ...], int] = {}
        for topic in self.topics:
            pool = pools.setdefault(tuple(classes_of_topic[topic]), len(pools))
            self._first[topic] = len(self.pool_of)
            self.pool_of += [pool] * self._counts[topic]
        bits_of_class = [bits(members) for members in classes]
        pools_of_class: list[list[int]] = [[] for _ in classes]
        for subscribers, pool in pools.items():
            self.takers.append(frozenset(member for number in subscribers for member in classes[number]))
            self.taker_bits.append(union(bits_of_class[number] for number in subscribers))
            for number in subscribers:
                pools_of_class[number].append(pool)
        for number, members in enumerate(classes):
            for member in members:
                self.pools[member] = pools_of_class[number]

    def pool(self, topic: str) -> int:
        """Return the pool of a topic. The topic must have partitions."""
        return self.pool_of[self._first[topic]]

    def partition(self, topic: str, number: int) -> int | None:
        """Return this index's number of a partition, or None if it does not exist or no member subscribes to it."""
        return self._first[topic] + number if 0 <= number < self._counts.get(topic, 0) else None

    def wanted(self, member: int, assignment: Assignment) -> Iterator[int]:
        """Yield the partitions of `assignment` that exist and whose topics the member subscribes to."""
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
