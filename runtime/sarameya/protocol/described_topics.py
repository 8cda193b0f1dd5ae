"""Topics as an administrator is told of them. Pure."""

from __future__ import annotations

import uuid
from typing import Any

import attrs

from sarameya.model import TopicPartition

_SET_FOR_THE_TOPIC = 1
"""Where a setting comes from (KIP-226): the topic's own, not the brokers' or the default."""


@attrs.frozen(slots=True)
class DescribedPartition:
    """One partition: who leads it, who has copies, and which of those are in step. No leader is None."""

    partition: TopicPartition
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    @property
    def is_in_sync(self) -> bool:
        """Whether every copy is."""
        return set(self.replicas) <= set(self.in_sync)


@attrs.frozen(slots=True)
class DescribedTopic:
    """A topic and its partitions, in order. `topic_id` is None where brokers know none (before Kafka 2.8)."""

    name: str
    topic_id: uuid.UUID | None
    partitions: tuple[DescribedPartition, ...]
    is_internal: bool = False

    @property
    def replication_factor(self) -> int:
        """How many copies each partition has; the fewest, where they differ."""
        return min((len(partition.replicas) for partition in self.partitions), default=0)


def described_topic(row: Any) -> DescribedTopic:
    """A topic of a MetadataResponse (kafka-python's, any version)."""
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
    """What is set for a topic itself, in a resource of a DescribeConfigsResponse; None for what is secret."""
    rows = (config for config in row.configs if config.config_source == _SET_FOR_THE_TOPIC)
    return {config.name: None if config.is_sensitive else config.value for config in rows}
