"""Committed offsets: who may commit, and which of a group's offsets may be deleted."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from sarameya.embedded.groups.group import Group
from sarameya.embedded.groups.messages import NO_MEMBER_ID, CommitRequest
from sarameya.embedded.groups.states import GroupState
from sarameya.error_codes import ErrorCode
from sarameya.model import CommittedOffset, TopicPartition

Commits = Mapping[TopicPartition, CommittedOffset]

NO_COMMIT = CommittedOffset(-1)
"""What a fetch answers for a partition without a commit."""

CONSUMER_PROTOCOL_TYPE = "consumer"


def check_commit(group: Group, request: CommitRequest) -> ErrorCode:
    """Whether the committer may commit now. The generation fences: one of g cannot commit into g + 1."""
    if request.generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE  # a simple consumer, or an administrator
    names_member = request.member_id != NO_MEMBER_ID or request.group_instance_id is not None
    if request.generation < 0 and not names_member:
        return ErrorCode.UNKNOWN_MEMBER_ID
    refusal = group.refusal(request.member_id, request.group_instance_id)
    if refusal is not ErrorCode.NONE:
        return refusal
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE:
        # Its generation is the new one, so it has had the join's answer: it commits what it no longer owns.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def check_missing_group(request: CommitRequest) -> ErrorCode:
    """The same for a group that does not exist: a simple consumer makes it by its first commit."""
    if request.generation < 0:
        return ErrorCode.NONE
    return ErrorCode.GROUP_ID_NOT_FOUND if request.knows_group_id_not_found else ErrorCode.ILLEGAL_GENERATION


def select(committed: Commits, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, CommittedOffset]:
    """The commits of these partitions, NO_COMMIT where there is none; of all that have one if `partitions` is None."""
    if partitions is None:
        return dict(committed)
    return {partition: committed.get(partition, NO_COMMIT) for partition in partitions}


def check_delete(group: Group) -> ErrorCode:
    """Whether single offsets of the group may be deleted: of a living group only if its subscription can be read."""
    if group.state is GroupState.EMPTY or group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        return ErrorCode.NONE
    return ErrorCode.NON_EMPTY_GROUP


def is_subscribed(group: Group, topic: str) -> bool:
    """Whether a member reads the topic. Where a subscription cannot be read, each topic counts as subscribed."""
    for member in group.members.values():
        topics = subscribed_topics(member.metadata(group.protocol_name) or b"")
        if topics is None or topic in topics:
            return True
    return False


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics in a consumer's subscription, which every version of it begins with; None for other bytes."""
    try:
        _version, count = struct.unpack_from(">hi", metadata)
        position, topics = 6, []
        for _ in range(count):
            (length,) = struct.unpack_from(">h", metadata, position)
            (topic,) = struct.unpack_from(f">{length}s", metadata, position + 2)
            topics.append(topic.decode())
            position += 2 + length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
