"""Where leader epochs end in the log of who leads now (OffsetForLeaderEpoch, KIP-320): asking a leader once.

For all who want to know: `consumer.epoch_checks` asks about what a claim has read, `consumer.epoch_lookup` for
handlers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from sarameya.model import TopicPartition, by_topic
from sarameya.net.broker_pool import BrokerPool, Purpose

_CONSUMER = -1
_Topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic


class EpochAsked(NamedTuple):
    """`epoch` is the one whose end is asked for; `leader_epoch` that of the leader which is believed in, so that one
    that was deposed, and has not heard of it, is found out."""

    epoch: int
    leader_epoch: int


async def ask_epoch_ends(
    pool: BrokerPool, leader: int, asked: Mapping[TopicPartition, EpochAsked]
) -> dict[TopicPartition, Any]:
    """What this leader says of each (an OffsetForLeaderEpochResponse `EpochEndOffset`); it may leave some out.

    Raises UnsupportedVersionError where it knows nothing of epochs, SarameyaError where it cannot be asked.
    """
    answer = await pool.request(
        leader, Purpose.METADATA, OffsetForLeaderEpochRequest, replica_id=_CONSUMER, topics=_topics(asked)
    )
    said = {TopicPartition(topic.topic, part.partition): part for topic in answer.topics for part in topic.partitions}
    return {partition: part for partition, part in said.items() if partition in asked}


def _topics(asked: Mapping[TopicPartition, EpochAsked]) -> list[Any]:
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
