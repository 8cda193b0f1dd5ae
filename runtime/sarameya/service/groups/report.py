"""The report of a group: each partition with its member, its commit and its log. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from sarameya.model import CommittedOffset, TopicPartition, topic_partitions
from sarameya.net.log_offsets import LogOffsets
from sarameya.protocol.cluster.described_groups import DescribedGroup, DescribedMember
from sarameya.protocol.cluster.offsets_partition import partition_for

Commits = Mapping[TopicPartition, CommittedOffset]


@attrs.frozen(slots=True)
class PartitionReport:
    """A partition that the group reads, or has a commit for. `member` is None if no member reads it."""

    partition: TopicPartition
    committed: CommittedOffset | None
    log_start: int | None
    log_end: int | None
    member: DescribedMember | None = None
    problem: str = ""
    """The reason why the log's offsets are unknown."""

    @property
    def lag(self) -> int | None:
        """Log end minus committed offset, as in Kafka's own tool; None if either is unknown.

        The lag is negative if the log was truncated below the commit. It counts deleted records, too, if the log now
        starts after the commit: see `is_outside_log`.
        """
        if self.committed is None or self.log_end is None:
            return None
        return self.log_end - self.committed.offset

    @property
    def is_outside_log(self) -> bool:
        """True if the committed offset is before the log start or after the log end."""
        if self.committed is None or self.log_start is None or self.log_end is None:
            return False
        return not self.log_start <= self.committed.offset <= self.log_end


@attrs.frozen(slots=True)
class GroupReport:
    """A group, its partitions in order, and the number of partitions of `__consumer_offsets` (None if unknown)."""

    group: DescribedGroup
    partitions: tuple[PartitionReport, ...] = ()
    offsets_partitions: int | None = None

    @property
    def offsets_partition(self) -> int | None:
        """The partition of `__consumer_offsets` that stores the group. Its leader is the coordinator."""
        return partition_for(self.group.group, self.offsets_partitions) if self.offsets_partitions else None

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The topics to which members subscribe."""
        return frozenset(topic for member in self.group.members for topic in member.topics)

    @property
    def lag(self) -> int | None:
        """The sum of the known lags; None if no lag is known."""
        known = [row.lag for row in self.partitions if row.lag is not None]
        return sum(known) if known else None


def partitions_of(group: DescribedGroup, committed: Commits, counts: Mapping[str, int]) -> set[TopicPartition]:
    """Return the partitions of a report: assigned, with a commit, or of a topic that a member subscribes to."""
    assigned = {tp for member in group.members for tp in topic_partitions(member.assignment or {})}
    topics = {topic for member in group.members for topic in member.topics}
    return assigned | {*committed} | {TopicPartition(topic, n) for topic in topics for n in range(counts.get(topic, 0))}


def report(
    group: DescribedGroup,
    committed: Commits,
    counts: Mapping[str, int],
    starts: LogOffsets,
    ends: LogOffsets,
    offsets_partitions: int | None = None,
) -> GroupReport:
    """Return the report of a group.

    Args:
        group: The group.
        committed: Its commits.
        counts: The number of partitions of each topic.
        starts: Log starts of all partitions that `partitions_of` returns.
        ends: Log ends of the same partitions.
        offsets_partitions: The number of partitions of `__consumer_offsets`.
    """
    readers: dict[TopicPartition, list[DescribedMember]] = {}
    for member in group.members:
        for partition in topic_partitions(member.assignment or {}):
            readers.setdefault(partition, []).append(member)
    rows = [
        PartitionReport(
            partition,
            committed.get(partition),
            starts.found.get(partition),
            ends.found.get(partition),
            member,
            ends.missing.get(partition) or starts.missing.get(partition, ""),
        )
        for partition in sorted(partitions_of(group, committed, counts))
        # A faulty assignor may assign a partition to several members: it then has a row for each.
        for member in readers.get(partition, [None])
    ]
    return GroupReport(group, tuple(rows), offsets_partitions)
