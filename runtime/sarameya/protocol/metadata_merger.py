"""Answers to Metadata requests, merged into one view of the cluster. Pure.

Each broker answers from its own copy of the metadata, and one that lags behind, or is cut off from the controller,
answers with what is out of date. News is believed at once. What an answer takes back is believed once `CONFIRMATIONS`
answers in a row have said so; brokers take turns, so those come from different ones where there are several. For a
topic id they need not be in a row, but so many more than the answers with the known one: of three brokers, one may be
cut off for days, and a deleted topic's partitions would be waited for as long.

| an answer has, of a topic | until it is confirmed |
|---|---|
| fewer partitions than are known | the missing ones are kept |
| another topic id than the known one | all that is known of the topic is kept |
| an earlier leader epoch of a partition, same id | the known leader is kept, confirmed or not (KIP-320) |

Without this, the leader of a group would assign anew with every answer: to three partitions, to six, to three again. A
topic that an answer does not have at all is not kept: who needs it looks several times (`TopicWatch`). Tests:
`tests/protocol/test_metadata_merger.py`.
"""

from __future__ import annotations

import uuid
from collections.abc import Hashable

import attrs

from sarameya.protocol.metadata import ClusterMetadata, Partition, Topic

CONFIRMATIONS = 3
"""Answers in a row that must agree before what they take back is believed."""


class MetadataMerger:
    """The merged view, `current`, of all answers so far."""

    def __init__(self) -> None:
        self.current = ClusterMetadata()
        self._doubts: dict[str, tuple[Hashable, int]] = {}
        """Topic -> what answers take back, and how many have said so."""

    @property
    def has_doubts(self) -> bool:
        """Whether answers took something back that is not confirmed: ask another broker."""
        return bool(self._doubts)

    def merge(self, answer: ClusterMetadata) -> ClusterMetadata:
        """Return what is known after `answer`."""
        doubts = self._doubts
        self._doubts = {}
        topics = {name: self._merged(topic, doubts) for name, topic in answer.topics.items()}
        self.current = attrs.evolve(answer, topics=topics)
        return self.current

    def _merged(self, told: Topic, doubts: dict[str, tuple[Hashable, int]]) -> Topic:
        known = self.current.topics.get(told.name)
        if known is None or not known.partitions or not told.partitions:
            return told
        is_another = None not in (told.topic_id, known.topic_id) and told.topic_id != known.topic_id
        before, times = doubts.get(told.name, (None, 0))
        if not is_another and told.partitions.keys() >= known.partitions.keys():
            if isinstance(before, uuid.UUID) and times > 1:
                self._doubts[told.name] = before, times - 1
            return _with_later_leaders(told, known)
        taken_back = told.topic_id if is_another else len(told.partitions)
        times = times + 1 if before == taken_back else 1
        if times >= CONFIRMATIONS:
            return told if is_another else _with_later_leaders(told, known)
        self._doubts[told.name] = taken_back, times
        if is_another:
            return known
        return _with_later_leaders(attrs.evolve(told, partitions={**known.partitions, **told.partitions}), known)


def _with_later_leaders(told: Topic, known: Topic) -> Topic:
    """Keep the known leader of each partition of which an earlier one is told.

    Only under the same id: a topic that was created again counts its epochs anew.
    """
    if told.topic_id is None or told.topic_id != known.topic_id:
        return told
    later: dict[int, Partition] = {
        number: partition
        for number, partition in known.partitions.items()
        if number in told.partitions and partition.leader_epoch > told.partitions[number].leader_epoch
    }
    return attrs.evolve(told, partitions={**told.partitions, **later}) if later else told
