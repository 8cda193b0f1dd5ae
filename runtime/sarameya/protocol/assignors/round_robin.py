"""The round-robin assignor: all partitions of all topics in one order, dealt to the members in turn.

More even than range where several topics are read, at the price of co-partitioning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sarameya.model import Assignment, TopicPartition, by_topic
from sarameya.protocol.assignors.base import Assignor, Subscription, TopicLayout, in_order, subscribed_topics


class RoundRobinAssignor(Assignor):
    """Deals topic-partitions, sorted by name and number; with equal subscriptions, counts differ by at most one."""

    name = "roundrobin"

    def assign(self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]) -> dict[str, Assignment]:
        deck = [
            TopicPartition(topic, number)
            for topic in subscribed_topics(members.values(), topics)
            for number in range(topics[topic].partitions)
        ]
        return {member: by_topic(dealt) for member, dealt in deal(deck, members).items()}


def deal(deck: Iterable[TopicPartition], members: Mapping[str, Subscription]) -> dict[str, list[TopicPartition]]:
    """`deck` dealt in its order, one to each member in turn; who does not subscribe to the topic is passed over.

    A partition to whose topic nobody subscribes is dealt to nobody.
    """
    order = in_order(members)
    subscriptions = [frozenset(members[member].topics) for member in order]
    dealt: dict[str, list[TopicPartition]] = {member: [] for member in members}
    turn = 0
    for partition in deck:
        for step in range(len(order)):
            candidate = (turn + step) % len(order)
            if partition.topic in subscriptions[candidate]:
                dealt[order[candidate]].append(partition)
                turn = candidate + 1
                break
    return dealt
