"""Cluster metadata: brokers, topics, partitions, leaders. Pure, immutable: a refresh makes a new object."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from sarameya.error_codes import ErrorCode
from sarameya.model import NO_LEADER_EPOCH, TopicPartition
from sarameya.protocol.assignors.base import TopicLayout


@attrs.frozen(slots=True)
class Broker:
    """A broker in the metadata; `rack` is None if it has none (KIP-36)."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """The advertised `host:port`."""
        return f"{self.host}:{self.port}"


@attrs.frozen(slots=True)
class PartitionMetadata:
    """A partition. `leader` is None while it has none; `leader_epoch` fences stale leaders (KIP-320)."""

    leader: int | None
    leader_epoch: int = NO_LEADER_EPOCH
    replicas: tuple[int, ...] = ()


@attrs.frozen(slots=True)
class TopicMetadata:
    """A topic as the cluster describes it. If `error` is not NONE, its partitions are not known."""

    name: str
    error: int
    partitions: Mapping[int, PartitionMetadata] = attrs.field(factory=dict)
    topic_id: uuid.UUID | None = None
    is_internal: bool = False
    """True for Kafka's own topics, such as `__consumer_offsets`. No pattern matches them."""


@attrs.frozen(slots=True)
class ClusterMetadata:
    """Brokers and topics of a cluster, from one Metadata response or merged from several (`metadata_merger.py`).

    A topic that does not exist is absent, or present with its error.
    """

    brokers: Mapping[int, Broker] = attrs.field(factory=dict)
    topics: Mapping[str, TopicMetadata] = attrs.field(factory=dict)
    has_all_topics: bool = False
    """True if the request covered all topics of the cluster: an absent topic does not exist then."""
    cluster_id: str = ""
    """Id of the cluster (KIP-78); empty if its brokers have none."""

    def partition(self, partition: TopicPartition) -> PartitionMetadata | None:
        """Return the metadata of one partition, or None if there is no such topic or partition."""
        topic = self.topics.get(partition.topic)
        return topic.partitions.get(partition.partition) if topic else None

    def leader(self, partition: TopicPartition) -> int | None:
        """Return the node id of the partition's leader; None if there is none or its address is not known."""
        found = self.partition(partition)
        return found.leader if found and found.leader in self.brokers else None

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each of `topics` that exists."""
        known = {name: self.topics.get(name) for name in topics}
        return {name: len(topic.partitions) for name, topic in known.items() if topic and topic.partitions}

    def layouts(self, topics: Iterable[str]) -> dict[str, TopicLayout]:
        """Return the assignor's view of each of `topics` that exists. Brokers without a rack add none (KIP-881)."""
        return {
            name: TopicLayout(count, self._replica_racks(self.topics[name]))
            for name, count in self.partition_counts(topics).items()
        }

    def _replica_racks(self, topic: TopicMetadata) -> dict[int, frozenset[str]]:
        racks = {node_id: broker.rack for node_id, broker in self.brokers.items() if broker.rack}
        if not racks:
            return {}
        # An offline replica counts if its rack is known: it is likely to be back soon.
        found = {
            number: frozenset(racks[node_id] for node_id in partition.replicas if node_id in racks)
            for number, partition in topic.partitions.items()
        }
        return {number: names for number, names in found.items() if names}

    def missing(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the error code of each of `topics` whose partitions are not known."""
        found: dict[str, int] = {}
        for name in topics:
            topic = self.topics.get(name)
            if topic is None:
                found[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif topic.error or not topic.partitions:
                found[name] = topic.error or ErrorCode.LEADER_NOT_AVAILABLE
        return found


def from_response(response: Any) -> ClusterMetadata:
    """Return the metadata in kafka-python's MetadataResponse, of any version. `has_all_topics` is False."""
    brokers = {b.node_id: Broker(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
    topics = {
        t.name: TopicMetadata(
            name=t.name,
            error=t.error_code,
            partitions={
                p.partition_index: PartitionMetadata(
                    leader=p.leader_id if p.leader_id >= 0 else None,
                    leader_epoch=p.leader_epoch,
                    replicas=tuple(p.replica_nodes),
                )
                for p in t.partitions
            },
            topic_id=t.topic_id if t.topic_id and t.topic_id.int else None,
            is_internal=bool(t.is_internal),
        )
        for t in response.topics
    }
    return ClusterMetadata(brokers, topics, cluster_id=response.cluster_id or "")
