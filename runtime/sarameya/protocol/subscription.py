"""What a member subscribes to, topics by name or by a pattern, and what the cluster makes of it. Pure."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping

from sarameya.error_codes import ErrorCode
from sarameya.errors import ConfigError
from sarameya.model import TopicPartition
from sarameya.protocol.metadata import ClusterMetadata

Wanted = tuple[str, ...] | re.Pattern[str]
"""Topics by their names, or by a pattern that a whole name must match."""

LOOK_UPS = 5
"""How often a topic that is gone is looked for before that is believed: one failed look-up is not a change."""


def checked(topics: Iterable[str] | None, pattern: re.Pattern[str] | None) -> Wanted:
    """What somebody wants to subscribe to. Raises ConfigError for what cannot be."""
    if pattern is not None:
        if topics is not None:
            raise ConfigError("pattern", pattern, "is given beside topics: give one of them")
        if not isinstance(pattern, re.Pattern) or not isinstance(pattern.pattern, str):
            raise ConfigError("pattern", pattern, 'must be a compiled pattern, for example re.compile("orders-.*")')
        return pattern
    names = tuple(topics) if topics is not None and not isinstance(topics, str | bytes) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError("topics", topics, 'must be a non-empty list of topic names, for example ["orders"]')
    return tuple(sorted(set(names)))


def resolve(wanted: Wanted, metadata: ClusterMetadata) -> tuple[str, ...]:
    """The topics' names, ascending: those that are wanted by name, or those that exist and match."""
    if isinstance(wanted, tuple):
        return wanted
    names = (name for name, topic in metadata.topics.items() if topic.partitions and not topic.is_internal)
    return tuple(sorted(name for name in names if wants(wanted, name)))


def wants(wanted: Wanted, topic: str) -> bool:
    """Whether a topic of this name is wanted, whatever the cluster says of it."""
    return topic in wanted if isinstance(wanted, tuple) else wanted.fullmatch(topic) is not None


class Growth:
    """Which partitions were added while the group ran: those are read from their start, whatever the policy.

    Else what was written between a partition's making and its discovery would be skipped under `newest`. What this
    member has not seen itself, since it is younger than the partition, the leader tells it (`added`).
    """

    def __init__(self) -> None:
        self._first_counts: dict[str, int] = {}
        self._ids: dict[str, uuid.UUID] = {}
        self._knew_all = False
        self._told: set[TopicPartition] = set()

    def look(self, metadata: ClusterMetadata) -> None:
        """Take note of metadata. Where it has every topic of the cluster, a topic that is new in it is new. One that
        has another id was deleted and created again, however soon (KIP-516)."""
        has_all = metadata.has_all_topics
        for name, topic in metadata.topics.items():
            if topic.topic_id is not None and self._ids.setdefault(name, topic.topic_id) != topic.topic_id:
                self._ids[name], self._first_counts[name] = topic.topic_id, 0
            if topic.partitions and name not in self._first_counts:
                self._first_counts[name] = 0 if self._knew_all and has_all else len(topic.partitions)
        self._knew_all = self._knew_all or (has_all and bool(metadata.topics))

    def forget(self, topics: Iterable[str]) -> None:
        """These topics are gone: whatever appears under their names is new."""
        for name in topics:
            if name in self._first_counts:
                self._first_counts[name] = 0

    def tell(self, added: Iterable[TopicPartition]) -> None:
        """The leader knows these to have been added."""
        self._told.update(added)

    def is_new(self, partition: TopicPartition) -> bool:
        """Whether the partition was added while the group ran, as far as this member knows."""
        first = self._first_counts.get(partition.topic, partition.partition + 1)
        return partition.partition >= first or partition in self._told


class TopicWatch:
    """What the leader has dealt against what the cluster has: topics that grow, appear or vanish are dealt anew."""

    def __init__(self) -> None:
        self._dealt: Mapping[str, int] = {}
        self._unseen: dict[str, int] = {}
        self._looked_at: ClusterMetadata | None = None

    def dealt_from(self, counts: Mapping[str, int]) -> None:
        """The leader has dealt each subscribed topic's partitions, 0 where it saw none."""
        self._dealt = dict(counts)
        self._unseen = {}
        self._looked_at = None

    def changes(self, metadata: ClusterMetadata) -> dict[str, int]:
        """topic -> its partitions now, of the topics for which that is no longer what was dealt."""
        changed: dict[str, int] = {}
        is_another_look = metadata is not self._looked_at  # one answer may be asked about several times
        self._looked_at = metadata
        for name, dealt in self._dealt.items():
            topic = metadata.topics.get(name)
            if topic is not None and topic.partitions:
                self._unseen.pop(name, None)
                if len(topic.partitions) != dealt:
                    changed[name] = len(topic.partitions)
            elif dealt and (topic is None or topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                self._unseen[name] = self._unseen.get(name, 0) + is_another_look
                if self._unseen[name] >= LOOK_UPS:
                    changed[name] = 0
        return changed

    @property
    def doubts(self) -> bool:
        """Whether a topic has not been seen, but not often enough to believe that: look again soon."""
        return any(times < LOOK_UPS for times in self._unseen.values())
