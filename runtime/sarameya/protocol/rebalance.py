"""Encoding of subscriptions and assignments, which members and leader exchange through the broker.

The broker does not read them. The format is Kafka's "consumer" embedded protocol, in the version that the Java client
writes today. Later versions only append fields, so a reader of any version finds the fields that it knows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from sarameya.errors import ProtocolError
from sarameya.model import NO_GENERATION, Assignment, TopicPartition, by_topic, topic_partitions
from sarameya.protocol.assignors.base import Subscription
from sarameya.protocol.assignors.sticky import (
    PreviousAssignment,
    decode_previous_assignment,
    encode_previous_assignment,
)

PROTOCOL_TYPE = "consumer"
"""Protocol type of consumer groups in JoinGroup."""

# 1: owned partitions (KIP-429), 2: generation (KIP-792), 3: rack (KIP-881).
_VERSION = 3


def encode_subscription(subscription: Subscription) -> bytes:
    """Encode a member's metadata for one assignor, for JoinGroup. `group_instance_id` is not part of it."""
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=_rows(ConsumerProtocolSubscription, subscription.owned_partitions),
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id or None,
    )
    return bytes(message.encode(version=_VERSION))


def decode_subscription(data: bytes) -> Subscription:
    """Decode a subscription in any version. Raises ProtocolError for malformed bytes."""
    message = _decode(ConsumerProtocolSubscription, data)
    return Subscription(
        topics=tuple(map(_topic, message.topics or ())),
        user_data=message.user_data,
        owned_partitions=_partitions(message.owned_partitions),
        generation_id=message.generation_id,
        rack_id=message.rack_id or "",
    )


def encode_assignment(assignment: Assignment, user_data: bytes | None = None) -> bytes:
    """Encode one member's partitions, for the leader's SyncGroup."""
    rows = _rows(ConsumerProtocolAssignment, assignment)
    return bytes(ConsumerProtocolAssignment(assigned_partitions=rows, user_data=user_data).encode(version=_VERSION))


def decode_assignment(data: bytes) -> tuple[Assignment, bytes | None]:
    """Decode an assignment in any version.

    Empty `data` stands for an empty assignment: the broker sends it to a member that the leader has left out.

    Returns:
        The partitions and the assignor's user data.

    Raises:
        ProtocolError: The bytes are malformed.
    """
    if not data:
        return {}, None
    message = _decode(ConsumerProtocolAssignment, data)
    return _partitions(message.assigned_partitions), message.user_data


_ADDED = "~sarameya:added"
"""In place of a topic name: marks user data in which a Sarameya leader lists added partitions.

The name sorts after all topics, and is no valid topic name.
"""

_TAIL = struct.Struct(f">h{len(_ADDED)}siii")
"""End of such user data: `_ADDED`, one number (length of the assignor's part + 1, 0 for no part), no generation."""


def encode_user_data(own: bytes | None, added: Iterable[TopicPartition]) -> bytes | None:
    """Encode the user data of an assignment: the assignor's part, then the partitions that were added to topics.

    The second part is written only if partitions were added, and comes last, since other clients' assignors of the same
    name read the first part. It has the format of the user data of Kafka's sticky assignor: members with Sarama send
    the user data of an assignment back in their next subscription, where any leader must be able to read it. All other
    clients ignore the user data of an assignment.

    Args:
        own: The assignor's part.
        added: Partitions that were added while the group ran.
    """
    rows = by_topic(sorted(added))
    if not rows and decode_user_data(own) == (own, []):
        return own
    mark = {_ADDED: (0 if own is None else len(own) + 1,)}
    return (own or b"") + encode_previous_assignment(PreviousAssignment({**rows, **mark}, NO_GENERATION))


def decode_user_data(data: bytes | None) -> tuple[bytes | None, list[TopicPartition]]:
    """Split the user data of an assignment into the assignor's part and the added partitions.

    User data of a leader with another client has only the first part.
    """
    if data is None or len(data) < _TAIL.size:
        return data, []
    _, name, _, mark, _ = _TAIL.unpack_from(data, len(data) - _TAIL.size)
    own = None if mark == 0 else data[: mark - 1]
    rows = decode_previous_assignment(data[len(own or b"") :]).partitions if name == _ADDED.encode() else {}
    if rows.get(_ADDED) != (mark,) or mark < 0:
        return data, []
    return own, topic_partitions({topic: numbers for topic, numbers in rows.items() if topic != _ADDED})


def _rows(message: Any, assignment: Assignment) -> list[Any]:
    return [
        message.TopicPartition(topic=topic, partitions=sorted(numbers))
        for topic, numbers in sorted(assignment.items())
        if numbers
    ]


def _partitions(rows: Iterable[Any] | None) -> dict[str, tuple[int, ...]]:
    """Convert decoded rows. A topic may be in several rows, and some clients write null for an empty array."""
    numbers: dict[str, set[int]] = {}
    for row in rows or ():
        numbers.setdefault(_topic(row.topic), set()).update(row.partitions or ())
    if any(number < 0 for ps in numbers.values() for number in ps):
        raise ProtocolError("a group member sent a negative partition number")
    return {topic: tuple(sorted(ps)) for topic, ps in sorted(numbers.items()) if ps}


def _topic(name: str | None) -> str:
    if not name:
        raise ProtocolError("a group member sent an empty topic name")
    return name


def _decode(message: Any, data: bytes) -> Any:
    try:
        return message.decode(data)
    except (struct.error, ValueError) as error:
        raise ProtocolError(f"a group member sent bytes that are not a {message.name}: {error}") from error
