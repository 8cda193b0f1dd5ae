"""Round-robin assignor: assigns all partitions of all topics, in one order, to the members in turn.

More even than range if several topics are read, at the price of co-partitioning.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from sarameya.model import Assignment, TopicPartition, by_topic
from sarameya.protocol.assignors.base import Assignor, Subscription, TopicLayout, in_order, subscribed_topics


class RoundRobinAssignor(Assignor):
    """Assignor that gives partitions, sorted by topic and number, to the members in turn.

    With equal subscriptions counts differ by at most one.
    """

    name = "roundrobin"

    def assign(self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]) -> dict[str, Assignment]:
        deck = [
            TopicPartition(topic, number)
            for topic in subscribed_topics(members.values(), topics)
            for number in range(topics[topic].partitions)
        ]
        return {member: by_topic(dealt) for member, dealt in deal(deck, members).items()}


def deal(deck: Iterable[TopicPartition], members: Mapping[str, Subscription]) -> dict[str, list[TopicPartition]]:
    """Assign `deck` in its order, one to each member in turn. Members that do not subscribe to the topic are skipped.

    A partition whose topic nobody subscribes to is assigned to nobody.
    """
    order = in_order(members)
    takers: dict[str, list[int]] = {}
    for place, member in enumerate(order):
        for topic in frozenset(members[member].topics):
            takers.setdefault(topic, []).append(place)
    dealt: dict[str, list[TopicPartition]] = {member: [] for member in members}
    turn = 0
    for partition in deck:
        if places := takers.get(partition.topic):
            at = bisect_left(places, turn)
            place = places[at] if at < len(places) else places[0]
            dealt[order[place]].append(partition)
            turn = place + 1
    return dealt
