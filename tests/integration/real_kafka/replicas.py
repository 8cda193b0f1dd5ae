"""Replicas and leaders of a cluster of several brokers: read, moved, repaired.

Everything here blocks, as in `cluster`. A broker that was stopped or killed on purpose may stay away meanwhile.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, PartitionMetadata
from kafka.admin import KafkaAdminClient

from sarameya.protocol.cluster.offsets_partition import partition_for
from tests.integration.real_kafka.cluster import RealKafka
from tests.integration.real_kafka.node import Node

_REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"

_SECONDS = 60.0
"""What a broker may take to start and to be back in step with the others."""


def partitions_of(kafka: RealKafka, topic: str) -> dict[int, PartitionMetadata]:
    """Return a broker's metadata of each partition: `leader`, `replicas`, and the in-sync ones (`isrs`)."""
    return _told(kafka.admin(), topic)


def leaders(kafka: RealKafka, topic: str) -> dict[int, int]:
    """Partition -> node id."""
    return {number: partition.leader for number, partition in partitions_of(kafka, topic).items()}


def await_leader(kafka: RealKafka, topic: str, partition: int, node_id: int) -> None:
    """Wait until this broker leads the partition."""
    admin = kafka.admin()
    what = f"broker {node_id} to lead {topic}-{partition}"
    kafka.until(lambda: _told(admin, topic)[partition].leader == node_id, _SECONDS, what)


def await_in_step(kafka: RealKafka, topic: str, partition: int, node_ids: Sequence[int]) -> None:
    """Wait until these, and no others, are in step with the partition's leader."""
    admin = kafka.admin()
    what = f"{topic}-{partition} to be in step on {node_ids}"
    kafka.until(lambda: sorted(_told(admin, topic)[partition].isrs) == sorted(node_ids), _SECONDS, what)


def await_all_in_step(kafka: RealKafka) -> None:
    """Wait until every replica of every partition is in step with its leader."""
    kafka.until(partial(_are_in_step, kafka.admin()), _SECONDS, "all replicas to be in step")


def reassign(kafka: RealKafka, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
    """Move partitions to these brokers by Kafka's own tool, the new leader first; wait until the data is there.

    A leader that keeps a replica goes on leading; one that does not is followed by another.
    """
    moves = [{"topic": topic, "partition": number, "replicas": list(nodes)} for number, nodes in replicas.items()]
    with TemporaryDirectory() as directory:
        plan = Path(directory, "plan.json")
        plan.write_text(json.dumps({"version": 1, "partitions": moves}))
        kafka.run_tool(_REASSIGN, "--execute", "--reassignment-json-file", str(plan))
    admin = kafka.admin()
    kafka.until(lambda: _are_kept(_told(admin, topic), replicas), _SECONDS, f"{topic!r} to be on {replicas}")


def elect_preferred(kafka: RealKafka) -> None:
    """Let the first of its replicas lead every partition, by an election of preferred leaders."""
    admin = kafka.admin()
    admin.elect_leaders(ElectionType.PREFERRED).result(_SECONDS)
    kafka.until(lambda: all(p.leader == p.replicas[0] for p in _all_told(admin)), _SECONDS, "the preferred leaders")


def mend(kafka: RealKafka) -> None:
    """Start what has ended, and wait until all is as it was: in step, and led by the preferred leaders."""
    for node in kafka.nodes:
        if node.is_running:
            node.thaw()
        else:
            node.start()
    await_all_in_step(kafka)
    elect_preferred(kafka)


def controller(kafka: RealKafka) -> Node:
    """The broker that leads the quorum now. Where it stands still, others may be taken for dead with it."""
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    try:
        [topic] = admin.describe_metadata_quorum()["topics"]
    finally:
        admin.close()
    [partition] = topic["partitions"]
    return next(node for node in kafka.nodes if node.node_id == partition["leader_id"])


def group_coordinated_by(kafka: RealKafka, node_id: int, prefix: str) -> str:
    """The name of a group that this broker coordinates, as long as it leads what it leads now."""
    admin = kafka.admin()
    # The first request for a coordinator creates the topic of groups.
    with suppress(KafkaException):
        admin.describe_consumer_groups([prefix])[prefix].result()
    kafka.until(lambda: min(_led(admin).values(), default=-1) >= 0, _SECONDS, "the leaders of groups")
    led = _led(admin)
    names = (f"{prefix}-{n}" for n in itertools.count())
    return next(name for name in names if led[partition_for(name, len(led))] == node_id)


def _led(admin: AdminClient) -> dict[int, int]:
    return {number: partition.leader for number, partition in _told(admin, "__consumer_offsets").items()}


def delete_records(kafka: RealKafka, topic: str, partition: int, before: int) -> None:
    """Delete the records before an offset, as retention does."""
    admin = kafka.admin()  # what it was asked is never answered once it is collected as garbage
    [done] = admin.delete_records([TopicPartition(topic, partition, before)]).values()
    done.result(_SECONDS)


def delete_topic(kafka: RealKafka, topic: str) -> None:
    """Delete a topic, and wait until it is not to be seen any more."""
    admin = kafka.admin()
    [done] = admin.delete_topics([topic]).values()
    done.result(_SECONDS)
    kafka.until(lambda: topic not in admin.list_topics(timeout=1).topics, _SECONDS, f"{topic!r} to be gone")


def _told(admin: AdminClient, topic: str) -> dict[int, PartitionMetadata]:
    partitions: dict[int, PartitionMetadata] = admin.list_topics(topic, timeout=1).topics[topic].partitions
    return partitions


def _all_told(admin: AdminClient) -> list[PartitionMetadata]:
    topics = admin.list_topics(timeout=1).topics.values()
    return [partition for topic in topics for partition in topic.partitions.values()]


def _are_in_step(admin: AdminClient) -> bool:
    return all(sorted(partition.isrs) == sorted(partition.replicas) for partition in _all_told(admin))


def _are_kept(told: Mapping[int, PartitionMetadata], replicas: Mapping[int, Sequence[int]]) -> bool:
    return all(
        sorted(told[number].replicas) == sorted(told[number].isrs) == sorted(nodes)
        for number, nodes in replicas.items()
    )
