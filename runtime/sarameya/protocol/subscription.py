"""Subscriptions, by topic names or by pattern, and their match with the cluster's topics. Pure.

Rules that are easily broken:

- Partitions added while a member runs are read from their start, whatever `offset_initial` says: under `newest` the
  records written before their discovery would be skipped. The leader reports them to members that are younger than the
  partition (`Growth`). If all members are younger, nobody knows. Tests:
  `tests/group/test_subscription.py::test_added_partitions_are_read_from_their_start`,
  `tests/group/test_subscription.py::test_new_member_learns_added_partitions_from_the_leader`.
- A topic counts as deleted after five lookups, and only on UNKNOWN_TOPIC_OR_PARTITION: a failed lookup is not a change
  (`TopicWatch`). Test:
  `tests/protocol/test_subscription.py::test_topic_counts_as_deleted_after_five_look_ups`.
- A leader looks up a topic several times before it assigns without it. Test:
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
"""Topics by name, or a pattern that must match a whole name."""

LOOK_UPS = 5
"""Lookups that must miss a topic before it counts as deleted: one failed lookup is not a change."""


def checked(topics: Iterable[str] | None, pattern: re.Pattern[str] | None) -> Wanted:
    """Validate a subscription. Raises ConfigError if it is invalid."""
    if pattern is not None:
        if topics is not None:
            raise ConfigError("pattern", pattern, "is given beside topics: give one of them")
        if not isinstance(pattern, re.Pattern) or not isinstance(pattern.pattern, str):
            raise ConfigError("pattern", pattern, 'must be a compiled pattern, for example re.compile("orders-.*")')
        return pattern
    names = tuple(topics) if topics is not None and not isinstance(topics, str | bytes) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError("topics", topics, 'must be a non-empty list of topic names, for example ["orders"]')
    if not all(is_utf8(name) for name in names):
        # A request for metadata that names it could not be sent, nor any later one.
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
    """Partitions that were added while the group ran: those are read from their start, whatever the policy.

    Otherwise records written between the creation of a partition and its discovery would be skipped under `newest`. A
    member that is younger than the partition has not seen the change itself; the leader reports it (`added`).
    """

    def __init__(self) -> None:
        self._first_counts: dict[str, int] = {}
        self._ids: dict[str, uuid.UUID] = {}
        self._knew_all = False
        self._reported: set[TopicPartition] = set()

    def look(self, metadata: ClusterMetadata) -> None:
        """Compare with new metadata.

        If the metadata covers all topics of the cluster, a topic that appears in it is new. A topic with another id was
        deleted and created again, however soon (KIP-516).
        """
        has_all = metadata.has_all_topics
        for name, topic in metadata.topics.items():
            if topic.topic_id is not None and self._ids.setdefault(name, topic.topic_id) != topic.topic_id:
                self._ids[name], self._first_counts[name] = topic.topic_id, 0
            if topic.partitions and name not in self._first_counts:
                self._first_counts[name] = 0 if self._knew_all and has_all else len(topic.partitions)
        self._knew_all = self._knew_all or (has_all and bool(metadata.topics))

    def forget(self, topics: Iterable[str]) -> None:
        """Note that these topics are deleted: topics that appear under their names are new."""
        for name in topics:
            if name in self._first_counts:
                self._first_counts[name] = 0

    def add(self, added: Iterable[TopicPartition]) -> None:
        """Note the partitions that the leader reports as added."""
        self._reported.update(added)

    def is_new(self, partition: TopicPartition) -> bool:
        """Return whether the partition was added while the group ran, as far as this member knows."""
        first = self._first_counts.get(partition.topic, partition.partition + 1)
        return partition.partition >= first or partition in self._reported


class TopicWatch:
    """Comparison of the assigned topics with the cluster's.

    Topics that grow, appear or vanish cause a new assignment.
    """

    def __init__(self) -> None:
        self._dealt: Mapping[str, int] = {}
        self._unseen: dict[str, int] = {}
        self._looked_at: ClusterMetadata | None = None

    def assigned_from(self, counts: Mapping[str, int]) -> None:
        """Record the partition counts of the last assignment, 0 for topics that did not exist."""
        self._dealt = dict(counts)
        self._unseen = {}
        self._looked_at = None

    def changes(self, metadata: ClusterMetadata) -> dict[str, int]:
        """Return the present partition count of each topic that has changed since the assignment."""
        changed: dict[str, int] = {}
        is_another_look = metadata is not self._looked_at  # the same metadata may be passed several times
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
        """True if a topic is missing, but not often enough to believe it: look again soon."""
        return any(times < LOOK_UPS for times in self._unseen.values())
