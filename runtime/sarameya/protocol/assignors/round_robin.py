"""Round-robin assignor: assigns all partitions of all topics, in one order, to the members in turn.

With several topics the result is more even than that of the range assignor, but topics are not co-partitioned.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from sarameya.model import Assignment, TopicPartition, by_topic
from sarameya.protocol.assignors.base import Assignor, Subscription, TopicLayout, in_order, subscribed_topics


class RoundRobinAssignor(Assignor):
    """Assignor that gives partitions, sorted by topic and number, to the members in turn.

    With equal subscriptions the members' partition counts differ by at most one.
    """

    name = "roundrobin"

    def assign(self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]) -> dict[str, Assignment]:
        partitions = [
            TopicPartition(topic, number)
            for topic in subscribed_topics(members.values(), topics)
            for number in range(topics[topic].partitions)
        ]
        return {member: by_topic(assigned) for member, assigned in assign_in_turn(partitions, members).items()}


def assign_in_turn(
    partitions: Iterable[TopicPartition], members: Mapping[str, Subscription]
) -> dict[str, list[TopicPartition]]:
    """Assign the partitions in their order, one to each member in turn.

    Members that do not subscribe to the topic are skipped. Partitions of topics without a subscriber are left out.
    """
    order = in_order(members)
    takers: dict[str, list[int]] = {}
    for place, member in enumerate(order):
        for topic in frozenset(members[member].topics):
            takers.setdefault(topic, []).append(place)
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in members}
    next_place = 0
    for partition in partitions:
        if places := takers.get(partition.topic):
            at = bisect_left(places, next_place)
            place = places[at] if at < len(places) else places[0]
            assigned[order[place]].append(partition)
            next_place = place + 1
    return assigned
