"""Admin requests about a group to one broker: their encoding and the meaning of the responses.

`group_admin.py` chooses the broker, and retries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import OffsetDeleteRequest, OffsetFetchRequest

from sarameya.error_codes import ErrorCode
from sarameya.errors import ADVICE, KafkaError, ProtocolError, UnsupportedVersionError, kafka_error
from sarameya.model import CommittedOffset, TopicPartition, by_topic
from sarameya.net.broker_pool import BrokerPool, Purpose
from sarameya.protocol.cluster.described_groups import (
    DEAD,
    DescribedGroup,
    ListedGroup,
    classic_group,
    consumer_group,
    listed_groups,
)
from sarameya.protocol.cluster.metadata import Broker
from sarameya.protocol.schemas import ConsumerGroupDescribeRequest


class AdminClient:
    """Admin requests to one broker.

    Each method raises as `BrokerPool.request` does, and KafkaError (or a subclass) if the broker refuses.
    """

    def __init__(self, pool: BrokerPool) -> None:
        self._pool = pool

    async def list_groups(self, broker: Broker) -> list[ListedGroup]:
        """Return the groups that this broker coordinates."""
        answer = await self._send(broker, ListGroupsRequest, states_filter=[], types_filter=[])
        _raise_if(answer.error_code, f"groups of broker {broker.node_id}", "DESCRIBE")
        return listed_groups(answer, broker)

    async def describe(self, group: str, coordinator: Broker) -> DescribedGroup | None:
        """Return the group's state and members, or None if the coordinator has no such group."""
        return await self._describe_consumer(group, coordinator) or await self._describe_classic(group, coordinator)

    async def _describe_consumer(self, group: str, coordinator: Broker) -> DescribedGroup | None:
        """Describe a broker-led group.

        Return None for another type of group, or if the broker does not know this type.
        """
        message = ConsumerGroupDescribeRequest
        try:
            answer = await self._send(coordinator, message, group_ids=[group], include_authorized_operations=False)
        except UnsupportedVersionError:
            return None
        described = _only(answer.groups, group)
        if described.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            return None
        _raise_if(described.error_code, f"description of group {group!r}", "DESCRIBE")
        return consumer_group(described, coordinator)

    async def _describe_classic(self, group: str, coordinator: Broker) -> DescribedGroup | None:
        """Describe a classic group. Return None if there is no such group of this type."""
        message = DescribeGroupsRequest
        answer = await self._send(coordinator, message, groups=[group], include_authorized_operations=False)
        described = _only(answer.groups, group)
        if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND:  # from version 6 on (KIP-1043)
            return None
        _raise_if(described.error_code, f"description of group {group!r}", "DESCRIBE")
        return None if described.group_state == DEAD else classic_group(described, coordinator)

    async def committed(self, group: str, coordinator: Broker) -> dict[TopicPartition, CommittedOffset]:
        """Return all commits of the group, for topics that this principal may see."""
        answer = await self._send(coordinator, OffsetFetchRequest, group_id=group, topics=None, require_stable=False)
        what = f"committed offsets of group {group!r}"
        _raise_if(answer.error_code, what, "DESCRIBE")
        found: dict[TopicPartition, CommittedOffset] = {}
        for topic in answer.topics:
            for part in topic.partitions:
                _raise_if(part.error_code, f"{what}, {topic.name}-{part.partition_index}", "DESCRIBE")
                if part.committed_offset >= 0:
                    found[TopicPartition(topic.name, part.partition_index)] = CommittedOffset(
                        part.committed_offset, part.metadata or "", part.committed_leader_epoch
                    )
        return found

    async def delete_offsets(
        self, group: str, partitions: tuple[TopicPartition, ...], coordinator: Broker
    ) -> dict[TopicPartition, int]:
        """Delete commits (KIP-496). Return the error code of each partition."""
        row = OffsetDeleteRequest.OffsetDeleteRequestTopic
        topics = [
            row(name=topic, partitions=[row.OffsetDeleteRequestPartition(partition_index=n) for n in numbers])
            for topic, numbers in by_topic(partitions).items()
        ]
        answer = await self._send(coordinator, OffsetDeleteRequest, group_id=group, topics=topics)
        _raise_if(answer.error_code, f"deletion of offsets of group {group!r}", "DELETE")
        codes = {TopicPartition(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}
        return for_each(partitions, codes)

    async def delete_group(self, group: str, coordinator: Broker) -> None:
        """Delete a group without members (KIP-229)."""
        answer = await self._send(coordinator, DeleteGroupsRequest, groups_names=[group])
        _raise_if(_only(answer.results, group).error_code, f"deletion of group {group!r}", "DELETE")

    async def _send(self, broker: Broker, message: type[ApiMessage], **fields: Any) -> Any:
        return await self._pool.request(broker.node_id, Purpose.METADATA, message, **fields)


def _raise_if(code: int, context: str, operation: str) -> None:
    if code:
        raise refusal(code, context, operation)


def refusal(code: int, context: str, operation: str) -> KafkaError:
    """Return the error for a broker's code. `operation` is the operation of the missing ACL."""
    needed = {
        ErrorCode.GROUP_AUTHORIZATION_FAILED: f"it needs the ACL {operation} on the group",
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: f"it needs the ACL {operation} on the topic",
    }
    return kafka_error(code, context, advice={**ADVICE, **needed})


def _only(rows: Iterable[Any], group: str) -> Any:
    for row in rows:
        if row.group_id == group:
            return row
    raise ProtocolError(f"the response does not contain the requested group {group!r}")


def for_each(partitions: Iterable[TopicPartition], codes: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the code of each partition. A partition missing in the response counts as UNKNOWN_SERVER_ERROR."""
    return {partition: codes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR) for partition in partitions}
