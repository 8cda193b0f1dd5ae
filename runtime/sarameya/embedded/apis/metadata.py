"""Metadata: the brokers, and the leader of each partition."""

from __future__ import annotations

from typing import Any

from kafka.protocol.metadata import MetadataResponse

from sarameya.embedded.apis.call import Call
from sarameya.embedded.cluster_state import ClusterState
from sarameya.embedded.refusal import Refused
from sarameya.embedded.replicas import NO_LEADER
from sarameya.embedded.topics import EmbeddedPartition, EmbeddedTopic
from sarameya.error_codes import ErrorCode

_Topic = MetadataResponse.MetadataResponseTopic
_Partition = _Topic.MetadataResponsePartition
_Broker = MetadataResponse.MetadataResponseBroker


def answer(call: Call) -> None:
    cluster, wanted = call.cluster, call.body.topics
    # Version 0 has no null; an empty list means every topic there.
    if wanted is None or (call.version == 0 and not wanted):
        topics = [_known(topic, cluster) for topic in cluster.topics]
    else:
        may_create = cluster.settings.auto_create_topics and call.body.allow_auto_topic_creation
        topics = [_wanted(entry, cluster, may_create) for entry in wanted]
    nodes = cluster.nodes
    call.reply(
        MetadataResponse(
            brokers=[
                _Broker(node_id=node.id, host=node.host, port=node.port, rack=cluster.settings.racks.get(node.id))
                for node in nodes
            ],
            cluster_id=cluster.cluster_id,
            controller_id=nodes[0].id if nodes else -1,
            topics=topics,
        )
    )


def refuse(body: Any, code: ErrorCode) -> Any:
    return MetadataResponse(
        brokers=[],
        topics=[
            _Topic(error_code=code, name=entry.name, topic_id=entry.topic_id, partitions=[])
            for entry in body.topics or ()
        ],
    )


def _wanted(entry: Any, cluster: ClusterState, may_create: bool) -> Any:
    if entry.name is None:
        topic = cluster.topics.by_id(entry.topic_id)
        code = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = cluster.topics.get(entry.name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None and may_create and entry.name is not None:
        try:
            topic = cluster.create_topic(entry.name)
        except Refused as refused:
            code = refused.code
    if topic is None:
        return _Topic(error_code=code, name=entry.name, topic_id=entry.topic_id, partitions=[])
    return _known(topic, cluster)


def _known(topic: EmbeddedTopic, cluster: ClusterState) -> Any:
    up = cluster.up
    return _Topic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[_partition(partition, up) for partition in topic.partitions],
    )


def _partition(partition: EmbeddedPartition, up: list[int]) -> Any:
    replicas = partition.replicas
    return _Partition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else ErrorCode.NONE,
        partition_index=partition.topic_partition.partition,
        leader_id=partition.leader,
        leader_epoch=partition.log.leader_epoch,
        replica_nodes=replicas.ids,
        isr_nodes=replicas.in_sync,
        offline_replicas=[node_id for node_id in replicas.ids if node_id not in up],
    )
