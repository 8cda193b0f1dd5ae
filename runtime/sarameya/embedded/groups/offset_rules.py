"""Rules of committed offsets: which members may commit, which offsets may be deleted, which have expired. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sarameya.embedded.groups.model.classic_group import ClassicGroup
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import NO_MEMBER_ID, CommitRequest
from sarameya.embedded.groups.model.stored import StoredOffset
from sarameya.embedded.groups.model.subscriptions import CONSUMER_PROTOCOL_TYPE
from sarameya.error_codes import ErrorCode
from sarameya.model import CommittedOffset, TopicPartition

NO_COMMIT = CommittedOffset(-1)
"""The result of a fetch for a partition without a commit."""


def check_commit(group: ClassicGroup, request: CommitRequest) -> ErrorCode:
    """Check whether this commit is allowed now.

    The generation fences old members: a member of generation g cannot commit in generation g + 1.
    """
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
        # The member sends the new generation, so its join was answered. It commits partitions that it no longer owns.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def check_missing_group(request: CommitRequest) -> ErrorCode:
    """Check a commit to a group that does not exist. A simple consumer's first commit creates it."""
    if request.generation < 0:
        return ErrorCode.NONE
    return ErrorCode.GROUP_ID_NOT_FOUND if request.knows_group_id_not_found else ErrorCode.ILLEGAL_GENERATION


def select(
    stored: Mapping[TopicPartition, StoredOffset], partitions: Iterable[TopicPartition] | None
) -> dict[TopicPartition, CommittedOffset]:
    """Return the commit of each partition, or NO_COMMIT if it has none. `partitions` None: return all commits."""
    if partitions is None:
        return {partition: offset.committed for partition, offset in stored.items()}
    return {partition: stored[partition].committed if partition in stored else NO_COMMIT for partition in partitions}


def check_delete(group: ClassicGroup) -> ErrorCode:
    """Check whether single offsets may be deleted. In a group with members this needs subscriptions of consumers."""
    if group.state is GroupState.EMPTY or group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        return ErrorCode.NONE
    return ErrorCode.NON_EMPTY_GROUP


def expired(group: ClassicGroup, time_of_day: float, retention: float) -> list[TopicPartition]:
    """Return the partitions whose commits have expired (KIP-211).

    | state of the group                             | `retention` counts from                                   |
    |------------------------------------------------|-----------------------------------------------------------|
    | no member has ever joined (only commits)       | each commit                                               |
    | Empty                                          | the time when it became Empty                             |
    | Stable, with subscriptions that can be read    | each commit, for topics without a subscription            |
    | other (rebalancing, or not of type "consumer") | never expires                                             |

    A commit with its own expiry time (`expires_at`) expires at that time, under the same conditions.

    Args:
        group: The group.
        time_of_day: The current time in seconds since 1970.
        retention: Seconds to keep a commit.
    """
    empty_since = group.state_time if group.protocol_type is not None and group.state is GroupState.EMPTY else None
    if group.protocol_type is not None and group.state is not GroupState.EMPTY:
        has_known_topics = group.protocol_type == CONSUMER_PROTOCOL_TYPE and group.subscribed_topics is not None
        if group.state is not GroupState.STABLE or not has_known_topics:
            return []

    def is_expired(offset: StoredOffset) -> bool:
        if offset.expires_at is not None:
            return time_of_day >= offset.expires_at
        return time_of_day - (offset.commit_time if empty_since is None else empty_since) >= retention

    return [tp for tp, offset in group.offsets.items() if not group.subscribes_to(tp.topic) and is_expired(offset)]
