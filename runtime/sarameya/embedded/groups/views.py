"""Views of a group: the results of a join and a sync, the descriptions for admin clients, and the record in the log."""

from __future__ import annotations

from sarameya.embedded.groups.model.classic_group import ClassicGroup, ClassicGroupMember
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import (
    NO_LEADER,
    GroupDescription,
    GroupListing,
    JoinedMember,
    JoinGroupResult,
    MemberDescription,
    SyncGroupResult,
)
from sarameya.embedded.groups.model.stored import GroupRecord, MemberRecord
from sarameya.error_codes import ErrorCode


def subscription(group: ClassicGroup, member: ClassicGroupMember) -> bytes:
    """Return the member's metadata for the chosen protocol; empty if there is none."""
    return member.metadata(group.protocol_name) or b""


def join_result(group: ClassicGroup, member: ClassicGroupMember, *, skip_assignment: bool = False) -> JoinGroupResult:
    """Return the result of a join to the current generation. Only the leader gets the list of members."""
    members = (JoinedMember(m.member_id, m.group_instance_id, subscription(group, m)) for m in group.members.values())
    return JoinGroupResult(
        ErrorCode.NONE,
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or NO_LEADER,
        skip_assignment=skip_assignment,
        members=tuple(members) if group.leader == member.member_id else (),
    )


def sync_result(group: ClassicGroup, member: ClassicGroupMember) -> SyncGroupResult:
    """Return the result of a sync: the member's assignment."""
    return SyncGroupResult(ErrorCode.NONE, group.protocol_type, group.protocol_name, member.assignment)


def record(group: ClassicGroup) -> GroupRecord:
    """Return the group as the log stores it."""
    members = tuple(
        MemberRecord(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout=member.session_timeout,
            rebalance_timeout=member.rebalance_timeout,
            subscription=subscription(group, member),
            assignment=member.assignment,
        )
        for member in group.members.values()
    )
    return GroupRecord(
        group.generation,
        group.protocol_type or "",
        group.protocol_name,
        group.leader,
        members,
        group.state_time,
    )


def listing(group: ClassicGroup) -> GroupListing:
    """Return the group's entry in ListGroups."""
    return GroupListing(group.group_id, group.protocol_type or "", group.state)


def description(group: ClassicGroup) -> GroupDescription:
    """Return the group for DescribeGroups. As in Kafka, protocol and subscriptions are empty unless it is Stable."""
    is_stable = group.state is GroupState.STABLE
    members = tuple(
        MemberDescription(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            metadata=subscription(group, member) if is_stable else b"",
            assignment=member.assignment,
        )
        for member in group.members.values()
    )
    return GroupDescription(
        ErrorCode.NONE,
        group.group_id,
        state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_name=group.protocol_name or "" if is_stable else "",
        generation=group.generation,
        leader=group.leader or NO_LEADER,
        members=members,
    )
