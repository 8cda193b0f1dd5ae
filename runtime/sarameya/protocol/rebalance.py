"""The bytes members and leader exchange through the broker, which does not read them: subscriptions, assignments.

Kafka's "consumer" embedded protocol, written as today's Java client writes it. A reader meets a version newer
than it knows by reading the fields it knows: later versions only append.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import attrs
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from sarameya.errors import ProtocolError
from sarameya.model import NO_GENERATION, Assignment, TopicPartition, by_topic, topic_partitions
from sarameya.protocol.assignors.base import Subscription
from sarameya.protocol.assignors.sticky import Claim, decode_claim, encode_claim

PROTOCOL_TYPE = "consumer"
"""The protocol type of a consumer group, as JoinGroup names it."""

# 1: owned partitions (KIP-429), 2: generation (KIP-792), 3: rack (KIP-881).
_VERSION = 3


@attrs.frozen(slots=True)
class Change:
    """What a new assignment means for what is owned; each part ascending."""

    kept: tuple[TopicPartition, ...] = ()
    revoked: tuple[TopicPartition, ...] = ()
    added: tuple[TopicPartition, ...] = ()


def diff(owned: Iterable[TopicPartition], assigned: Iterable[TopicPartition]) -> Change:
    """From `owned` to `assigned` (KIP-429). Under an eager assignor nothing is owned any more, and all is added."""
    before, after = frozenset(owned), frozenset(assigned)
    return Change(tuple(sorted(before & after)), tuple(sorted(before - after)), tuple(sorted(after - before)))


def encode_subscription(subscription: Subscription) -> bytes:
    """A member's metadata for one assignor, as JoinGroup carries it. `group_instance_id` is not part of it."""
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=_rows(ConsumerProtocolSubscription, subscription.owned_partitions),
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id or None,
    )
    return bytes(message.encode(version=_VERSION))


def decode_subscription(data: bytes) -> Subscription:
    """What another member wrote, in any version. Raises ProtocolError for bytes that are no subscription."""
    message = _decode(ConsumerProtocolSubscription, data)
    return Subscription(
        topics=tuple(map(_topic, message.topics or ())),
        user_data=message.user_data,
        owned_partitions=_partitions(message.owned_partitions),
        generation_id=message.generation_id,
        rack_id=message.rack_id or "",
    )


def encode_assignment(assignment: Assignment, user_data: bytes | None = None) -> bytes:
    """One member's partitions, as the leader's SyncGroup carries them."""
    rows = _rows(ConsumerProtocolAssignment, assignment)
    return bytes(ConsumerProtocolAssignment(assigned_partitions=rows, user_data=user_data).encode(version=_VERSION))


def decode_assignment(data: bytes) -> tuple[Assignment, bytes | None]:
    """(partitions, user data) as the leader wrote them, in any version.

    No bytes at all are an empty assignment: the broker sends them to a member the leader has left out.
    Raises ProtocolError for bytes that are no assignment.
    """
    if not data:
        return {}, None
    message = _decode(ConsumerProtocolAssignment, data)
    return _partitions(message.assigned_partitions), message.user_data


_ADDED = "~sarameya:added"
"""Stands behind the last topic's name, where our leaders say in user data which partitions were added. No topic's name
may begin with a tilde."""

_TAIL = struct.Struct(f">h{len(_ADDED)}siii")
"""How such user data ends: that name, one number (how much of it is the assignor's), no generation."""


def encode_user_data(own: bytes | None, added: Iterable[TopicPartition]) -> bytes | None:
    """The user data of an assignment: what the assignor sends along, and behind it which partitions were added.

    What nobody but us need know comes last, and only where something was added: other clients' assignors of the same
    name read theirs in front of it. It is written as a claim of Kafka's sticky assignor, to the partitions that are
    named: Sarama's members send the user data they got back with their next subscription, where any leader must be
    able to read it. Other clients' own assignors pay the user data of an assignment no heed.
    """
    rows = by_topic(sorted(added))
    if not rows and decode_user_data(own) == (own, []):
        return own
    mark = {_ADDED: (0 if own is None else len(own) + 1,)}
    return (own or b"") + encode_claim(Claim({**rows, **mark}, NO_GENERATION))


def decode_user_data(data: bytes | None) -> tuple[bytes | None, list[TopicPartition]]:
    """(what the assignor sent along, which partitions were added) as one of our leaders wrote it.

    From anybody else all is the assignor's, and nothing was added.
    """
    if data is None or len(data) < _TAIL.size:
        return data, []
    _, name, _, mark, _ = _TAIL.unpack_from(data, len(data) - _TAIL.size)
    own = None if mark == 0 else data[: mark - 1]
    said = decode_claim(data[len(own or b"") :]).partitions if name == _ADDED.encode() else {}
    if said.get(_ADDED) != (mark,) or mark < 0:
        return data, []
    return own, topic_partitions({topic: numbers for topic, numbers in said.items() if topic != _ADDED})


def _rows(message: Any, assignment: Assignment) -> list[Any]:
    return [
        message.TopicPartition(topic=topic, partitions=sorted(numbers))
        for topic, numbers in sorted(assignment.items())
        if numbers
    ]


def _partitions(rows: Iterable[Any] | None) -> dict[str, tuple[int, ...]]:
    """A topic may come in several rows, and some clients write a null array where nothing is meant."""
    numbers: dict[str, set[int]] = {}
    for row in rows or ():
        numbers.setdefault(_topic(row.topic), set()).update(row.partitions or ())
    if any(number < 0 for ps in numbers.values() for number in ps):
        raise ProtocolError("a group member named a negative partition")
    return {topic: tuple(sorted(ps)) for topic, ps in sorted(numbers.items()) if ps}


def _topic(name: str | None) -> str:
    if not name:
        raise ProtocolError("a group member named a topic by nothing")
    return name


def _decode(message: Any, data: bytes) -> Any:
    try:
        return message.decode(data)
    except (struct.error, ValueError) as error:
        raise ProtocolError(f"a group member sent bytes that are no {message.name}: {error}") from error
