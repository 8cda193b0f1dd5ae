"""Subscriptions by topic names or by pattern, and their comparison with the cluster's topics. Pure.

Rules that are easily broken:

- Partitions added while a member runs are read from their start, whatever `offset_initial` is: under `newest`, records
  written before their discovery would be skipped. The leader reports such partitions to members that started after
  they were added (`Growth`). If all members started later, no member knows. Tests:
  `tests/group/test_subscription.py::test_added_partitions_are_read_from_their_start`,
  `tests/group/test_subscription.py::test_new_member_learns_added_partitions_from_the_leader`.
- A topic counts as deleted after five lookups, and only on UNKNOWN_TOPIC_OR_PARTITION: a failed lookup is not a change
  (`TopicWatch`). Test:
  `tests/protocol/test_subscription.py::test_topic_counts_as_deleted_after_five_look_ups`.
- A leader looks up a missing topic several times before it assigns without that topic. Test:
  `tests/group/test_resilience.py::test_topic_missing_once_is_looked_up_before_assigning`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping

from sarameya.error_codes import ErrorCode
from sarameya.errors import ConfigError
from sarameya.model import TopicPartition
from sarameya.protocol.cluster.metadata import ClusterMetadata
from sarameya.secret import is_utf8

Wanted = tuple[str, ...] | re.Pattern[str]
"""A subscription: topic names, or a pattern that must match a whole name."""

LOOK_UPS = 5
"""Number of lookups without a topic after which it counts as deleted. A single lookup may be wrong."""


def checked(topics: Iterable[str] | None, pattern: re.Pattern[str] | None) -> Wanted:
    """Validate and return a subscription. Raises ConfigError if it is invalid."""
    if pattern is not None:
        if topics is not None:
            raise ConfigError("pattern", pattern, "is given in addition to topics: give only one of them")
        if not isinstance(pattern, re.Pattern) or not isinstance(pattern.pattern, str):
            raise ConfigError("pattern", pattern, 'must be a compiled pattern, for example re.compile("orders-.*")')
        return pattern
    names = tuple(topics) if topics is not None and not isinstance(topics, str | bytes) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError("topics", topics, 'must be a non-empty list of topic names, for example ["orders"]')
    if not all(is_utf8(name) for name in names):
        # Every later request for metadata would contain the name, and could not be encoded.
        raise ConfigError("topics", topics, "must be text: a name has bytes in it that are not UTF-8")
    return tuple(sorted(set(names)))


def resolve(wanted: Wanted, metadata: ClusterMetadata) -> tuple[str, ...]:
    """Return the topic names, ascending: the subscribed names, or the existing topics that match."""
    if isinstance(wanted, tuple):
        return wanted
    names = (name for name, topic in metadata.topics.items() if topic.partitions and not topic.is_internal)
    return tuple(sorted(name for name in names if wants(wanted, name)))


def wants(wanted: Wanted, topic: str) -> bool:
    """Return whether the subscription includes a topic of this name, existing or not."""
    return topic in wanted if isinstance(wanted, tuple) else wanted.fullmatch(topic) is not None


class Growth:
    """Partitions that were added while the group ran. They are read from their start, whatever the offset policy is.

    Otherwise, under `newest`, records written between the creation of a partition and its discovery would be skipped. A
    member that started after the change has not seen it. The leader reports the partition to it (`add`).
    """

    def __init__(self) -> None:
        self._first_counts: dict[str, int] = {}
        """Topic -> the partition count with which this member saw it first; 0 for a topic that is new itself."""
        self._ids: dict[str, uuid.UUID] = {}
        self._knew_all = False
        """True once metadata with all topics of the cluster were seen."""
        self._reported: set[TopicPartition] = set()

    def update(self, metadata: ClusterMetadata) -> None:
        """Compare with new metadata.

        A topic is new if metadata with all topics of the cluster lack it, and later metadata with all topics have it. A
        topic with another id was deleted and created again, however soon (KIP-516).
        """
        has_all = metadata.has_all_topics
        for name, topic in metadata.topics.items():
            if topic.topic_id is not None and self._ids.setdefault(name, topic.topic_id) != topic.topic_id:
                self._ids[name], self._first_counts[name] = topic.topic_id, 0
            if topic.partitions and name not in self._first_counts:
                self._first_counts[name] = 0 if self._knew_all and has_all else len(topic.partitions)
        self._knew_all = self._knew_all or (has_all and bool(metadata.topics))

    def forget(self, topics: Iterable[str]) -> None:
        """Record that these topics are deleted. If topics of these names appear again, they are new."""
        for name in topics:
            if name in self._first_counts:
                self._first_counts[name] = 0

    def add(self, added: Iterable[TopicPartition]) -> None:
        """Record the partitions that the leader reports as added."""
        self._reported.update(added)

    def is_new(self, partition: TopicPartition) -> bool:
        """Return whether the partition was added while the group ran, as far as this member knows."""
        first = self._first_counts.get(partition.topic, partition.partition + 1)
        return partition.partition >= first or partition in self._reported


class TopicWatch:
    """Comparison of the last assignment with the cluster: topics that grow, appear or vanish need a new assignment."""

    def __init__(self) -> None:
        self._assigned: Mapping[str, int] = {}
        """Partition counts of the last assignment."""
        self._missing: dict[str, int] = {}
        """Topic -> the number of lookups in a row without it."""
        self._last: ClusterMetadata | None = None

    def assigned_from(self, counts: Mapping[str, int]) -> None:
        """Record the partition counts of the last assignment, 0 for topics that did not exist."""
        self._assigned = dict(counts)
        self._missing = {}
        self._last = None

    def changes(self, metadata: ClusterMetadata) -> dict[str, int]:
        """Return the current partition count of each topic that has changed since the assignment."""
        changed: dict[str, int] = {}
        is_new_lookup = metadata is not self._last  # the same metadata may be passed several times
        self._last = metadata
        for name, count in self._assigned.items():
            topic = metadata.topics.get(name)
            if topic is not None and topic.partitions:
                self._missing.pop(name, None)
                if len(topic.partitions) != count:
                    changed[name] = len(topic.partitions)
            elif count and (topic is None or topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                self._missing[name] = self._missing.get(name, 0) + is_new_lookup
                if self._missing[name] >= LOOK_UPS:
                    changed[name] = 0
        return changed

    @property
    def has_doubts(self) -> bool:
        """True if a topic is missing, but does not count as deleted yet: look it up again soon."""
        return any(times < LOOK_UPS for times in self._missing.values())
