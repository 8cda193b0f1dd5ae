"""A client as the group's leader: it assigns with the real assignors and encodings, and watches the topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from sarameya.model import Generation
from sarameya.protocol.assignors.base import Assignor, Subscription, TopicLayout
from sarameya.protocol.membership.messages import Assign, GroupMember
from sarameya.protocol.rebalance import decode_assignment, decode_subscription, encode_assignment


class Leader:
    """A stand-in for the `Leader` of `group/membership/leader.py`."""

    def __init__(self, assignors: Sequence[Assignor], layouts: Callable[[], Mapping[str, TopicLayout]]) -> None:
        self.supervises_only = False
        """True if an earlier leader computed the assignment, without partitions added since then (KIP-814)."""
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._layouts = layouts
        self._partition_counts: Mapping[str, int] = {}

    def assign(self, command: Assign) -> dict[str, bytes]:
        """Return the encoded assignment of each member, by member id."""
        subscriptions = _subscriptions(command.members)
        assignor = self._assignors[command.generation.protocol]
        assignments = assignor.assign(subscriptions, self._layouts())
        assert assignments.keys() == subscriptions.keys()
        self._watch_topics(subscriptions)
        self.supervises_only = False
        return {
            member_id: encode_assignment(assignment, assignor.assignment_user_data(member_id, assignment))
            for member_id, assignment in assignments.items()
        }

    def supervise(self, members: Iterable[GroupMember]) -> None:
        self._watch_topics(_subscriptions(members))
        self.supervises_only = True

    def topics_have_changed(self) -> bool:
        """Return whether a partition count has changed since the assignment."""
        layouts = self._layouts()
        return any(layouts[topic].partitions != count for topic, count in self._partition_counts.items())

    def decode(self, generation: Generation, assignment: bytes) -> Mapping[str, tuple[int, ...]]:
        """Decode this member's assignment, and pass it to its assignor."""
        decoded, user_data = decode_assignment(assignment)
        self._assignors[generation.protocol].on_assignment(decoded, user_data, generation.id)
        return decoded

    def _watch_topics(self, subscriptions: Mapping[str, Subscription]) -> None:
        topics = {topic for subscription in subscriptions.values() for topic in subscription.topics}
        self._partition_counts = {topic: self._layouts()[topic].partitions for topic in sorted(topics)}


def _subscriptions(members: Iterable[GroupMember]) -> dict[str, Subscription]:
    return {
        member.member_id: attrs.evolve(decode_subscription(member.metadata), group_instance_id=member.group_instance_id)
        for member in members
    }
