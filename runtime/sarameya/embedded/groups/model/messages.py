"""What goes into the coordinator and what comes out: requests and answers. Frozen data only.

No wire format here: the `apis` translate. Times are seconds (the wire has milliseconds); a null string of the
wire is None only where the field says so. Flags stand for what a request's version implies, so that the
coordinator knows no versions.
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
"""Called exactly once, with the answer, during the call that asked or any later one."""


class SupportedProtocol(NamedTuple):
    """An assignor a member supports, with its subscription in that assignor's own bytes."""

    name: str
    metadata: bytes


@attrs.frozen(slots=True)
class JoinRequest:
    """JoinGroup. A v0 request has no rebalance timeout: give its session timeout."""

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
    """v4+: a first join is answered MEMBER_ID_REQUIRED, and the member comes back with the id (KIP-394)."""
    can_skip_assignment: bool = True
    """v9+: the answer has a field to tell a returning static leader not to assign (KIP-814)."""
    reason: str = ""
    """v8+: why the client joins (KIP-800); shown in the coordinator's log."""


class JoinedMember(NamedTuple):
    """One member as the leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@attrs.frozen(slots=True)
class JoinGroupResult:
    """`members` is filled for the leader alone. A v6- answer writes a None protocol name as the empty string."""

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
    """SyncGroup. `assignments` (member id -> bytes) counts from the leader alone."""

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
    """A member that the leader gave nothing has an empty `assignment`, without an error."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@attrs.frozen(slots=True)
class HeartbeatRequest:
    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None = None


@attrs.frozen(slots=True)
class LeavingMember:
    """Who leaves: by member id, or by instance id alone (an administrator removes a static member)."""

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
    """`members` pairs each asked-for member with its own error. v0 to v2 answer `single_error`."""

    error: ErrorCode
    members: tuple[tuple[LeavingMember, ErrorCode], ...] = ()

    @property
    def single_error(self) -> ErrorCode:
        """The one code of an answer before v3: the group's error, else the first member's."""
        if self.error is not ErrorCode.NONE or not self.members:
            return self.error
        return self.members[0][1]


@attrs.frozen(slots=True)
class CommitRequest:
    """OffsetCommit. A simple consumer (no group protocol) commits with NO_GENERATION and NO_MEMBER_ID.

    Whether a topic or partition exists is for the caller to check beforehand. Null metadata is "".
    """

    group_id: str
    offsets: Mapping[TopicPartition, CommittedOffset]
    generation: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None
    knows_group_id_not_found: bool = True
    """v9+; older requests are told ILLEGAL_GENERATION where their generation's group does not exist."""
    retention: float | None = None
    """v2 to v4: how many seconds to keep these commits, whatever becomes of the group. None: as the broker is set."""


@attrs.frozen(slots=True)
class OffsetCommitResult:
    """One code for each partition of the request, in its order."""

    errors: Mapping[TopicPartition, ErrorCode]


@attrs.frozen(slots=True)
class OffsetFetchResult:
    """Asked for by name, a partition without a commit has offset -1; asked for all, it is left out."""

    error: ErrorCode
    offsets: Mapping[TopicPartition, CommittedOffset] = attrs.field(factory=dict)


@attrs.frozen(slots=True)
class OffsetDeleteResult:
    """OffsetDelete: the group's error, else one code a partition."""

    error: ErrorCode
    errors: Mapping[TopicPartition, ErrorCode] = attrs.field(factory=dict)


@attrs.frozen(slots=True)
class MemberDescription:
    """One member, for DescribeGroups. `metadata` is empty unless the group is Stable."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@attrs.frozen(slots=True)
class GroupDescription:
    """One group, for DescribeGroups. A group that does not exist is Dead, without an error."""

    error: ErrorCode
    group_id: str
    state: GroupState | None = None
    """None where `error` is set; the empty string on the wire."""
    protocol_type: str = ""
    protocol_name: str = ""
    generation: int = NO_GENERATION
    leader: str = NO_LEADER
    members: tuple[MemberDescription, ...] = ()


@attrs.frozen(slots=True)
class GroupListing:
    """One line of ListGroups. All groups here are of the classic type."""

    group_id: str
    protocol_type: str
    state: GroupState
