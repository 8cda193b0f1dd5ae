"""The range assignor: topic by topic, each member gets one run of neighbouring partitions.

Topics with equal partition counts and subscribers are co-partitioned: partition n of each goes to the same
member. The price: the first members get the extra partition of *every* topic.
"""

from __future__ import annotations

from collections.abc import Mapping

from sarameya.model import Assignment
from sarameya.protocol.assignors.base import Assignor, Subscription, TopicLayout, in_order, subscribed_topics


class RangeAssignor(Assignor):
    """Of P partitions and C subscribed members, the first P % C members get P // C + 1, the others P // C."""

    name = "range"

    def assign(self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]) -> dict[str, Assignment]:
        assigned: dict[str, dict[str, tuple[int, ...]]] = {member: {} for member in members}
        order = in_order(members)
        subscriptions = {member: frozenset(members[member].topics) for member in order}
        for topic in subscribed_topics(members.values(), topics):
            takers = [member for member in order if topic in subscriptions[member]]
            share, extra = divmod(topics[topic].partitions, len(takers))
            start = 0
            for rank, member in enumerate(takers):
                end = start + share + (rank < extra)
                if end > start:
                    assigned[member][topic] = tuple(range(start, end))
                start = end
        return dict(assigned)
