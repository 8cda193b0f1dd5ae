"""Topics as the admin API describes them. Pure."""

from __future__ import annotations

import uuid
from typing import Any

import attrs

from sarameya.model import TopicPartition

_SET_FOR_THE_TOPIC = 1
"""Source of a setting (KIP-226): set for the topic, not a default or a setting of the brokers."""


@attrs.frozen(slots=True)
class DescribedPartition:
    """Leader, replicas and in-sync replicas of one partition. `leader` is None while the partition has none."""

    partition: TopicPartition
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    @property
    def is_in_sync(self) -> bool:
        """True if every replica is in sync."""
        return set(self.replicas) <= set(self.in_sync)


@attrs.frozen(slots=True)
class DescribedTopic:
    """Topic and its partitions, in order. `topic_id` is None if the broker is older than Kafka 2.8."""

    name: str
    topic_id: uuid.UUID | None
    partitions: tuple[DescribedPartition, ...]
    is_internal: bool = False

    @property
    def replication_factor(self) -> int:
        """Number of replicas of each partition; the smallest number if partitions differ."""
        return min((len(partition.replicas) for partition in self.partitions), default=0)


def described_topic(row: Any) -> DescribedTopic:
    """Convert a topic of a MetadataResponse (kafka-python's, any version)."""
    return DescribedTopic(
        row.name,
        row.topic_id if row.topic_id and row.topic_id.int else None,
        tuple(
            DescribedPartition(
                TopicPartition(row.name, part.partition_index),
                part.leader_id if part.leader_id >= 0 else None,
                part.leader_epoch,
                tuple(part.replica_nodes),
                tuple(part.isr_nodes),
            )
            for part in sorted(row.partitions, key=lambda part: part.partition_index)
        ),
        bool(row.is_internal),
    )


def own_settings(row: Any) -> dict[str, str | None]:
    """Return the settings that the topic overrides.

    Args:
        row: A resource of a DescribeConfigsResponse.

    Returns:
        Value by name; None for sensitive values.
    """
    rows = (config for config in row.configs if config.config_source == _SET_FOR_THE_TOPIC)
    return {config.name: None if config.is_sensitive else config.value for config in rows}
