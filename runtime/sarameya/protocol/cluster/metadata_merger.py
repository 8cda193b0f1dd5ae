"""Merging of Metadata responses into one view of the cluster. Pure.

Each broker answers from its own copy of the metadata. A broker that lags, or is cut off from the controller, returns
stale metadata. Additions are accepted at once. A removal is accepted once `CONFIRMATIONS` responses in a row agree.
Requests go to the brokers in turn, so these responses come from different brokers if there are several. Responses with
another topic id need not be in a row, but must outnumber those with the known id by `CONFIRMATIONS`. Otherwise one
broker of three that is cut off for days could delay the change as long, while members wait for the deleted topic.

| a response has | until it is confirmed |
|---|---|
| fewer brokers than are known | the missing ones are kept, with their connections |
| fewer topics than are known, of all | the missing ones are kept |
| for a topic, fewer partitions than are known | the missing ones are kept |
| another topic id than the known id | everything known about the topic is kept |
| an earlier leader epoch of a partition, same id | the known leader is kept, confirmed or not (KIP-320) |

Without this rule, the leader of a group would reassign with every response: with three partitions, with six, with three
again. Members that subscribe by pattern would rejoin without a topic, and then with it. The connections to a broker
would be closed by each response of another broker that does not know it. A topic that was requested by name, and is
unknown, is not kept: `TopicWatch` checks that several times. Tests: `tests/protocol/test_metadata_merger.py`.
"""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Mapping, Set

import attrs

from sarameya.protocol.cluster.metadata import Broker, ClusterMetadata, PartitionMetadata, TopicMetadata

CONFIRMATIONS = 3
"""Responses in a row that must agree before something is removed."""

_ABSENT = "absent"
"""In `_doubts`: responses do not have the topic."""


class MetadataMerger:
    """Merged view, `current`, of all responses so far."""

    def __init__(self) -> None:
        self.current = ClusterMetadata()
        self._doubts: dict[str, tuple[Hashable, int]] = {}
        """Topic -> the unconfirmed change (topic id, number of partitions, or `_ABSENT`), and its responses so far."""
        self._missing: dict[int, int] = {}
        """Node id of each broker that is kept -> the number of responses in a row without it."""

    @property
    def has_doubts(self) -> bool:
        """True if a removal or another topic id is not confirmed yet: ask another broker.

        A missing broker does not count: it does no harm to keep a broker that no longer exists.
        """
        return bool(self._doubts)

    def merge(self, answer: ClusterMetadata) -> ClusterMetadata:
        """Merge `answer` and return the new view."""
        doubts = self._doubts
        self._doubts = {}
        topics = {name: self._merged(topic, doubts) for name, topic in answer.topics.items()}
        if answer.has_all_topics:
            topics |= self._absent(answer.topics.keys(), doubts)
        self.current = attrs.evolve(answer, brokers=self._with_missing(answer.brokers), topics=topics)
        return self.current

    def _with_missing(self, received: Mapping[int, Broker]) -> Mapping[int, Broker]:
        known, before = self.current.brokers, self._missing
        times = {node_id: before.get(node_id, 0) + 1 for node_id in known if node_id not in received}
        self._missing = {node_id: count for node_id, count in times.items() if count < CONFIRMATIONS}
        return {**received, **{node_id: known[node_id] for node_id in self._missing}}

    def _absent(self, received: Set[str], doubts: dict[str, tuple[Hashable, int]]) -> dict[str, TopicMetadata]:
        """Return the known topics that a response lacks, except those whose absence is confirmed."""
        kept: dict[str, TopicMetadata] = {}
        for name, topic in self.current.topics.items():
            if name in received or not topic.partitions:
                continue
            before, times = doubts.get(name, (None, 0))
            times = times + 1 if before == _ABSENT else 1
            if times < CONFIRMATIONS:
                self._doubts[name] = _ABSENT, times
                kept[name] = topic
        return kept

    def _merged(self, received: TopicMetadata, doubts: dict[str, tuple[Hashable, int]]) -> TopicMetadata:
        known = self.current.topics.get(received.name)
        if known is None or not known.partitions or not received.partitions:
            return received
        is_another = None not in (received.topic_id, known.topic_id) and received.topic_id != known.topic_id
        before, times = doubts.get(received.name, (None, 0))
        if not is_another and received.partitions.keys() >= known.partitions.keys():
            if isinstance(before, uuid.UUID) and times > 1:
                self._doubts[received.name] = before, times - 1
            return _with_later_leaders(received, known)
        change = received.topic_id if is_another else len(received.partitions)
        times = times + 1 if before == change else 1
        if times >= CONFIRMATIONS:
            return received if is_another else _with_later_leaders(received, known)
        self._doubts[received.name] = change, times
        if is_another:
            return known
        return _with_later_leaders(
            attrs.evolve(received, partitions={**known.partitions, **received.partitions}), known
        )


def _with_later_leaders(received: TopicMetadata, known: TopicMetadata) -> TopicMetadata:
    """Keep the known leader of each partition for which `received` has an earlier one.

    Only under the same id: a topic that was created again starts its epochs again.
    """
    if received.topic_id is None or received.topic_id != known.topic_id:
        return received
    later: dict[int, PartitionMetadata] = {
        number: partition
        for number, partition in known.partitions.items()
        if number in received.partitions and partition.leader_epoch > received.partitions[number].leader_epoch
    }
    return attrs.evolve(received, partitions={**received.partitions, **later}) if later else received
