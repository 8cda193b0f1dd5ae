"""Replicas and leaders of a cluster of several brokers: read, move and repair them.

All functions block, as in `cluster`. Brokers that a test has stopped or killed may stay down meanwhile.
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
"""The longest time for a broker to start and to catch up with the others."""


def partitions_of(kafka: RealKafka, topic: str) -> dict[int, PartitionMetadata]:
    """Return the metadata of each partition: `leader`, `replicas`, and the in-sync replicas (`isrs`)."""
    return _partitions(kafka.admin(), topic)


def leaders(kafka: RealKafka, topic: str) -> dict[int, int]:
    """Return the node id of each partition's leader."""
    return {number: partition.leader for number, partition in partitions_of(kafka, topic).items()}


def await_leader(kafka: RealKafka, topic: str, partition: int, node_id: int) -> None:
    """Wait until this broker leads the partition."""
    admin = kafka.admin()
    what = f"broker {node_id} to lead {topic}-{partition}"
    kafka.until(lambda: _partitions(admin, topic)[partition].leader == node_id, _SECONDS, what)


def await_in_sync(kafka: RealKafka, topic: str, partition: int, node_ids: Sequence[int]) -> None:
    """Wait until these brokers, and no others, are in sync with the partition's leader."""
    admin = kafka.admin()
    what = f"{topic}-{partition} to be in sync on {node_ids}"
    kafka.until(lambda: sorted(_partitions(admin, topic)[partition].isrs) == sorted(node_ids), _SECONDS, what)


def await_all_in_sync(kafka: RealKafka) -> None:
    """Wait until every replica of every partition is in sync with its leader."""
    kafka.until(partial(_are_in_sync, kafka.admin()), _SECONDS, "all replicas to be in sync")


def reassign(kafka: RealKafka, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
    """Move partitions to other brokers with Kafka's own tool, and wait until the data is there.

    `replicas` has the node ids of each partition, the preferred leader first. A leader that keeps a replica stays the
    leader.
    """
    moves = [{"topic": topic, "partition": number, "replicas": list(nodes)} for number, nodes in replicas.items()]
    with TemporaryDirectory() as directory:
        plan = Path(directory, "plan.json")
        plan.write_text(json.dumps({"version": 1, "partitions": moves}))
        kafka.run_tool(_REASSIGN, "--execute", "--reassignment-json-file", str(plan))
    admin = kafka.admin()
    kafka.until(lambda: _are_moved(_partitions(admin, topic), replicas), _SECONDS, f"{topic!r} to be on {replicas}")


def elect_preferred(kafka: RealKafka) -> None:
    """Elect the preferred leader (the first replica) of every partition, and wait until it leads."""
    admin = kafka.admin()
    admin.elect_leaders(ElectionType.PREFERRED).result(_SECONDS)
    kafka.until(lambda: _are_led_by_preferred(admin), _SECONDS, "the preferred leaders")


def mend(kafka: RealKafka) -> None:
    """Start or thaw all brokers, and wait until all replicas are in sync and the preferred leaders lead."""
    for node in kafka.nodes:
        if node.is_running:
            node.thaw()
        else:
            node.start()
    await_all_in_sync(kafka)
    elect_preferred(kafka)


def controller(kafka: RealKafka) -> Node:
    """Return the broker that leads the quorum now. While it is frozen, other brokers may be fenced too."""
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    try:
        [topic] = admin.describe_metadata_quorum()["topics"]
    finally:
        admin.close()
    [partition] = topic["partitions"]
    return next(node for node in kafka.nodes if node.node_id == partition["leader_id"])


def create_groups_topic(kafka: RealKafka) -> None:
    """Create `__consumer_offsets` while all brokers run, so that each of them coordinates groups."""
    admin = kafka.admin()
    with suppress(KafkaException):  # the first request for a coordinator creates the topic
        admin.describe_consumer_groups(["any"], request_timeout=1)["any"].result()
    kafka.until(
        lambda: set(_group_leaders(admin).values()) == {node.node_id for node in kafka.nodes},
        _SECONDS,
        "each broker to coordinate groups",
    )


def group_coordinated_by(kafka: RealKafka, node_id: int, prefix: str) -> str:
    """Return the name of a group that this broker coordinates, until leaders of `__consumer_offsets` move."""
    admin = kafka.admin()
    leader_ids: dict[int, int] = {}

    def is_elected() -> bool:
        # Brokers answer in turn. One that lags may not know the topic yet after another has listed all leaders.
        leader_ids.update(_group_leaders(admin))
        return min(leader_ids.values(), default=-1) >= 0 and node_id in leader_ids.values()

    kafka.until(is_elected, _SECONDS, f"broker {node_id} to coordinate groups")
    names = (f"{prefix}-{n}" for n in itertools.count())
    return next(name for name in names if leader_ids[partition_for(name, len(leader_ids))] == node_id)


def _group_leaders(admin: AdminClient) -> dict[int, int]:
    return {number: partition.leader for number, partition in _partitions(admin, "__consumer_offsets").items()}


def delete_records(kafka: RealKafka, topic: str, partition: int, before: int) -> None:
    """Delete the records before an offset, as retention does."""
    admin = kafka.admin()  # a client without a reference is garbage collected, and its futures never complete
    [done] = admin.delete_records([TopicPartition(topic, partition, before)]).values()
    done.result(_SECONDS)


def delete_topic(kafka: RealKafka, topic: str) -> None:
    """Delete a topic, and wait until the metadata does not list it any more."""
    admin = kafka.admin()
    [done] = admin.delete_topics([topic]).values()
    done.result(_SECONDS)
    kafka.until(lambda: topic not in admin.list_topics(timeout=1).topics, _SECONDS, f"the deletion of {topic!r}")


def _partitions(admin: AdminClient, topic: str) -> dict[int, PartitionMetadata]:
    partitions: dict[int, PartitionMetadata] = admin.list_topics(topic, timeout=1).topics[topic].partitions
    return partitions


def _all_partitions(admin: AdminClient) -> list[PartitionMetadata]:
    topics = admin.list_topics(timeout=1).topics.values()
    return [partition for topic in topics for partition in topic.partitions.values()]


def _are_led_by_preferred(admin: AdminClient) -> bool:
    return all(partition.leader == partition.replicas[0] for partition in _all_partitions(admin))


def _are_in_sync(admin: AdminClient) -> bool:
    return all(sorted(partition.isrs) == sorted(partition.replicas) for partition in _all_partitions(admin))


def _are_moved(partitions: Mapping[int, PartitionMetadata], replicas: Mapping[int, Sequence[int]]) -> bool:
    return all(
        sorted(partitions[number].replicas) == sorted(partitions[number].isrs) == sorted(nodes)
        for number, nodes in replicas.items()
    )
