"""Requests to the coordinator and their results, as frozen data.

The wire format is in `apis`. Times are in seconds (milliseconds on the wire). A null string on the wire is "" here,
except in fields that may be None. Flags stand for the version of a request, so that the coordinator knows no versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

import attrs

from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.error_codes import ErrorCode
from sarameya.model import NO_GENERATION, CommittedOffset, TopicPartition

NO_MEMBER_ID = ""
NO_LEADER = ""

A = TypeVar("A")
Reply = Callable[[A], None]
"""Called exactly once with the result, during the request's call or any later one."""


class SupportedProtocol(NamedTuple):
    """An assignor that a member supports, with the member's subscription in that assignor's format."""

    name: str
    metadata: bytes


@attrs.frozen(slots=True)
class JoinRequest:
    """JoinGroup. A v0 request has no rebalance timeout: use its session timeout."""

    group_id: str
    protocol_type: str
    protocols: tuple[SupportedProtocol, ...]
    """In the member's order of preference."""
    session_timeout: float
    rebalance_timeout: float
    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    requires_known_member_id: bool = True
    """v4+: a first join is answered MEMBER_ID_REQUIRED, and the member joins again with the id (KIP-394)."""
    can_skip_assignment: bool = True
    """v9+: the response can ask a returning static leader to skip the assignment (KIP-814)."""
    reason: str = ""
    """v8+: the client's reason for joining (KIP-800), for the coordinator's log."""


class JoinedMember(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@attrs.frozen(slots=True)
class JoinGroupResult:
    """Result of a join. Only the leader gets `members`. A response below v7 encodes a None protocol name as ""."""

    error: ErrorCode
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = NO_LEADER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@attrs.frozen(slots=True)
class SyncRequest:
    """SyncGroup. `assignments` (bytes by member id) is read only from the leader."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    """v5+; None is not checked."""
    protocol_name: str | None = None
    """v5+; None is not checked."""
    assignments: Mapping[str, bytes] = attrs.field(factory=dict)


@attrs.frozen(slots=True)
class SyncGroupResult:
    """Result of a sync. `assignment` is empty, without an error, for a member that the leader assigned nothing."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@attrs.frozen(slots=True)
class HeartbeatRequest:
    """Heartbeat."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None = None


@attrs.frozen(slots=True)
class LeavingMember:
    """A member that leaves, named by member id, or by instance id alone (an administrator removes a static member)."""

    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None
    reason: str = ""


@attrs.frozen(slots=True)
class LeaveRequest:
    """LeaveGroup. v0 to v2 name one member, v3+ any number."""

    group_id: str
    members: tuple[LeavingMember, ...]


@attrs.frozen(slots=True)
class LeaveGroupResult:
    """Result of a leave. `members` has an error for each named member. v0 to v2 return `single_error`."""

    error: ErrorCode
    members: tuple[tuple[LeavingMember, ErrorCode], ...] = ()

    @property
    def single_error(self) -> ErrorCode:
        """The only error of a response below v3: the group's, else the first member's."""
        if self.error is not ErrorCode.NONE or not self.members:
            return self.error
        return self.members[0][1]


@attrs.frozen(slots=True)
class CommitRequest:
    """OffsetCommit. A simple consumer (no group protocol) commits with NO_GENERATION and NO_MEMBER_ID.

    The caller checks first that topics and partitions exist. Null metadata is "".
    """

    group_id: str
    offsets: Mapping[TopicPartition, CommittedOffset]
    generation: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None
    knows_group_id_not_found: bool = True
    """v9+; older requests get ILLEGAL_GENERATION if the group of their generation does not exist."""
    retention: float | None = None
    """v2 to v4: seconds to keep these commits, whatever the state of the group. None: the broker's setting."""


@attrs.frozen(slots=True)
class OffsetCommitResult:
    """An error code for each partition of the request, in its order."""

    errors: Mapping[TopicPartition, ErrorCode]


@attrs.frozen(slots=True)
class OffsetFetchResult:
    """Result of an OffsetFetch. A named partition without a commit has offset -1; a fetch of all omits it."""

    error: ErrorCode
    offsets: Mapping[TopicPartition, CommittedOffset] = attrs.field(factory=dict)


@attrs.frozen(slots=True)
class OffsetDeleteResult:
    """Result of an OffsetDelete: the group's error, or else one error code for each partition."""

    error: ErrorCode
    errors: Mapping[TopicPartition, ErrorCode] = attrs.field(factory=dict)


@attrs.frozen(slots=True)
class MemberDescription:
    """A member in DescribeGroups. `metadata` is empty unless the group is Stable."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@attrs.frozen(slots=True)
class GroupDescription:
    """A group in DescribeGroups. A group that does not exist is Dead, without an error."""

    error: ErrorCode
    group_id: str
    state: GroupState | None = None
    """The state; None if `error` is set, which is the empty string on the wire."""
    protocol_type: str = ""
    protocol_name: str = ""
    generation: int = NO_GENERATION
    leader: str = NO_LEADER
    members: tuple[MemberDescription, ...] = ()


@attrs.frozen(slots=True)
class GroupListing:
    """An entry of ListGroups. All groups here are of the classic type."""

    group_id: str
    protocol_type: str
    state: GroupState
