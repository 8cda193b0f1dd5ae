"""Ends of leader epochs in the log of the current leader (OffsetForLeaderEpoch, KIP-320): one request to one leader.

`consumer.epoch_checks` uses it for records that a claim has read, and `consumer.epoch_lookup` for handlers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from sarameya.model import TopicPartition, by_topic
from sarameya.net.broker_pool import BrokerPool, Purpose

_CONSUMER = -1
_Topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic


class RequestedEpoch(NamedTuple):
    """Leader epoch to look up, and the current leader's epoch in our metadata.

    A former leader that does not know that it has been replaced refuses the higher epoch.
    """

    epoch: int
    leader_epoch: int


async def ask_epoch_ends(
    pool: BrokerPool, leader: int, asked: Mapping[TopicPartition, RequestedEpoch]
) -> dict[TopicPartition, Any]:
    """Ask one leader for the ends of leader epochs.

    Args:
        pool: The connections.
        leader: Node id of the leader.
        asked: The epochs to look up.

    Returns:
        Each partition's part of the response (an OffsetForLeaderEpochResponse `EpochEndOffset`). Some may be missing.

    Raises:
        UnsupportedVersionError: The broker does not know leader epochs.
        SarameyaError: The request failed.
    """
    answer = await pool.request(
        leader, Purpose.METADATA, OffsetForLeaderEpochRequest, replica_id=_CONSUMER, topics=_topics(asked)
    )
    rows = {TopicPartition(topic.topic, part.partition): part for topic in answer.topics for part in topic.partitions}
    return {partition: row for partition, row in rows.items() if partition in asked}


def _topics(asked: Mapping[TopicPartition, RequestedEpoch]) -> list[Any]:
    return [
        _Topic(
            topic=topic,
            partitions=[
                _Topic.OffsetForLeaderPartition(
                    partition=number,
                    current_leader_epoch=asked[TopicPartition(topic, number)].leader_epoch,
                    leader_epoch=asked[TopicPartition(topic, number)].epoch,
                )
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(list(asked)).items()
    ]
