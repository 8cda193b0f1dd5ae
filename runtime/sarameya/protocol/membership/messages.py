"""Inputs (events) and outputs (commands) of the membership machine. Plain data.

Each command with a response carries a `token`, and so does the event that reports the response. Times are seconds on
the caller's monotonic clock. The classes are msgspec Structs: an attrs class takes half a millisecond to create.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sarameya.model import NO_GENERATION, Assignment, Generation


class GroupMember(msgspec.Struct, frozen=True):
    """A member in a JoinGroup response to the leader. `metadata` is the encoded subscription."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


# -- events: from the shell ---------------------------------------------------------------------------


class JoinWanted(msgspec.Struct, frozen=True):
    """A request to join, or to rejoin after all revocations that a rebalance requires.

    `owned` is the assignment that is kept (KIP-429), empty under an eager assignor. `reason` goes to the broker
    (KIP-800). A session that continues gives its `generation`: if that has ended, the event is ignored.
    """

    reason: str = ""
    owned: Assignment = {}
    generation: int | None = None


class RebalanceWanted(msgspec.Struct, frozen=True):
    """A request of this member for a rebalance, since partition counts or the subscription changed."""

    reason: str


class LeaveWanted(msgspec.Struct, frozen=True):
    """A request to leave the group; the session, if there was one, has ended. `reason` goes to the broker (KIP-800)."""

    reason: str


class FindSucceeded(msgspec.Struct, frozen=True):
    """Response to `FindCoordinator`: the coordinator's node id."""

    token: int
    node_id: int


class FindFailed(msgspec.Struct, frozen=True):
    """A failed search for the coordinator. `code` is Kafka's, or 0 if no broker responded."""

    token: int
    code: int
    cause: str


class CoordinatorLost(msgspec.Struct, frozen=True):
    """Report of another request (a commit) that broker `coordinator` no longer coordinates the group."""

    coordinator: int
    cause: str


class RequestFailed(msgspec.Struct, frozen=True):
    """A request without a response: connection lost, deadline passed, or undecodable bytes."""

    token: int
    cause: str


class Unanswered(msgspec.Struct, frozen=True):
    """A join or sync without a response in time. Either the coordinator holds the request, or it was lost."""

    token: int
    cause: str


class RequestImpossible(msgspec.Struct, frozen=True):
    """A request that can never be sent: broker and client share no version of its API."""

    token: int
    error: Exception


class JoinAnswered(msgspec.Struct, frozen=True):
    """Response to `SendJoin`. `code` is Kafka's; the leader also gets the members."""

    token: int
    code: int
    member_id: str = ""
    generation: int = -1
    protocol: str = ""
    leader: str = ""
    members: tuple[GroupMember, ...] = ()
    skip_assignment: bool = False


class SyncAnswered(msgspec.Struct, frozen=True):
    """Response to `SendSync`: an error code, or the encoded assignment."""

    token: int
    code: int
    assignment: bytes = b""


class HeartbeatAnswered(msgspec.Struct, frozen=True):
    """Response to `SendHeartbeat`."""

    token: int
    code: int


class LeaveAnswered(msgspec.Struct, frozen=True):
    """Response to `SendLeave`."""

    token: int
    code: int


class AssignmentMade(msgspec.Struct, frozen=True):
    """Result of the leader's assignor: member id -> its assignment, encoded."""

    token: int
    assignments: Mapping[str, bytes]


class AssignmentFailed(msgspec.Struct, frozen=True):
    """Report that the leader's assignor has raised."""

    token: int
    error: Exception


class CommitRefused(msgspec.Struct, frozen=True):
    """An error code that concerns the membership, in the response to a commit of `generation`."""

    generation: int
    code: int


Event = (
    JoinWanted
    | RebalanceWanted
    | LeaveWanted
    | FindSucceeded
    | FindFailed
    | CoordinatorLost
    | RequestFailed
    | Unanswered
    | RequestImpossible
    | JoinAnswered
    | SyncAnswered
    | HeartbeatAnswered
    | LeaveAnswered
    | AssignmentMade
    | AssignmentFailed
    | CommitRefused
)


# -- commands: to the shell ---------------------------------------------------------------------------


class FindCoordinator(msgspec.Struct, frozen=True):
    """Send a FindCoordinator request."""

    token: int


class ForgetCoordinator(msgspec.Struct, frozen=True):
    """Forget the coordinator: it is no longer at `node_id`."""

    node_id: int
    cause: str


class SendJoin(msgspec.Struct, frozen=True):
    """Send a JoinGroup request. `owned` was assigned in generation `owned_since` (KIP-792; -1 if there was none)."""

    token: int
    member_id: str
    reason: str = ""
    owned: Assignment = {}
    owned_since: int = NO_GENERATION
    silences: int = 0
    """Number of joins and syncs in a row that got no response before this one."""


class Assign(msgspec.Struct, frozen=True):
    """Assign partitions to `members`, as the leader, in a worker thread. Heartbeats go on meanwhile."""

    token: int
    generation: Generation
    members: tuple[GroupMember, ...]


class Supervise(msgspec.Struct, frozen=True):
    """Watch the topics of `members`, as the leader. The old assignment stays valid (KIP-814)."""

    members: tuple[GroupMember, ...]


class SendSync(msgspec.Struct, frozen=True):
    """Send a SyncGroup request. `assignments` is empty for a follower, and for a leader that must skip it (KIP-814)."""

    token: int
    generation: Generation
    assignments: Mapping[str, bytes]
    silences: int = 0
    """Number of joins and syncs in a row that got no response before this one."""


class SendHeartbeat(msgspec.Struct, frozen=True):
    """Send a heartbeat for `generation`."""

    token: int
    generation: Generation


class SendLeave(msgspec.Struct, frozen=True):
    """Send a LeaveGroup request. `reason` goes to the broker (KIP-800)."""

    token: int
    member_id: str
    reason: str


class Assigned(msgspec.Struct, frozen=True):
    """Own `assignment` (encoded, empty bytes for no partitions) in `generation`: the membership is stable."""

    generation: Generation
    assignment: bytes


class PrepareRebalance(msgspec.Struct, frozen=True):
    """Revoke, by `deadline`, the partitions that the rebalance protocol requires; then send JoinWanted."""

    reason: str
    deadline: float


class MembershipLost(msgspec.Struct, frozen=True):
    """Stop and commit nothing, since all owned partitions are lost; then send JoinWanted."""

    reason: str


class Left(msgspec.Struct, frozen=True):
    """End: the membership has ended.

    `taken` is True if the coordinator has accepted a leave. A client that has not joined sends no leave, nor does a
    static member. `reason` is the reason in the request.
    """

    taken: bool
    reason: str


class Fail(msgspec.Struct, frozen=True):
    """Stop, commit nothing, send LeaveWanted: the membership has failed for good, and no other command follows."""

    error: Exception


class StateChanged(msgspec.Struct, frozen=True):
    """Report a transition of the machine to observers."""

    before: str
    after: str
    cause: str
    trigger: str


class RetryScheduled(msgspec.Struct, frozen=True):
    """Report to observers that a request is retried in `delay` seconds."""

    what: str
    attempt: int
    elapsed: float
    delay: float
    cause: str
    kind: str
    """Name of the request."""


Command = (
    FindCoordinator
    | ForgetCoordinator
    | SendJoin
    | Assign
    | Supervise
    | SendSync
    | SendHeartbeat
    | SendLeave
    | Assigned
    | PrepareRebalance
    | MembershipLost
    | Left
    | Fail
    | StateChanged
    | RetryScheduled
)
