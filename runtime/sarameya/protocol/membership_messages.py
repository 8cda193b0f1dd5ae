"""What goes into the membership machine (events) and what comes out of it (commands). Plain data.

Every command that will be answered carries a `token`; the event that reports the answer carries the same.
Times are those of the caller's monotonic clock, in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from sarameya.model import NO_GENERATION, Assignment, Generation


@attrs.frozen(slots=True)
class GroupMember:
    """One row of a join's answer, as the leader gets it. `metadata` is its subscription, undecoded."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


# -- events: from the shell ---------------------------------------------------------------------------


@attrs.frozen(slots=True)
class JoinWanted:
    """Become a member, or rejoin: what a rebalance wants given up has been given up.

    `owned` is what is kept (KIP-429), nothing under an eager assignor. `reason` goes to the broker (KIP-800). A session
    that goes on names the `generation` it speaks for: where that is over, its wish is, too.
    """

    reason: str = ""
    owned: Assignment = attrs.field(factory=dict)
    generation: int | None = None


@attrs.frozen(slots=True)
class RebalanceWanted:
    """We want a rebalance ourselves (partition counts or the subscription changed)."""

    reason: str


@attrs.frozen(slots=True)
class LeaveWanted:
    """Leave the group; the session, if there was one, has ended. `reason` goes to the broker (KIP-800)."""

    reason: str


@attrs.frozen(slots=True)
class CoordinatorFound:
    token: int
    node_id: int


@attrs.frozen(slots=True)
class FindFailed:
    """`code` is Kafka's, 0 where no broker could be asked."""

    token: int
    code: int
    cause: str


@attrs.frozen(slots=True)
class CoordinatorLost:
    """Somebody else (a commit) found that `coordinator` is no longer ours."""

    coordinator: int
    cause: str


@attrs.frozen(slots=True)
class RequestFailed:
    """A request got no answer: connection lost, deadline passed, bytes that were no answer."""

    token: int
    cause: str


@attrs.frozen(slots=True)
class Unanswered:
    """A join or sync was not answered in the time given to it. The coordinator may be holding it, or it is lost."""

    token: int
    cause: str


@attrs.frozen(slots=True)
class RequestImpossible:
    """A request cannot be sent at all, now or later: broker and client share no version of its API."""

    token: int
    error: Exception


@attrs.frozen(slots=True)
class JoinAnswered:
    token: int
    code: int
    member_id: str = ""
    generation: int = -1
    protocol: str = ""
    leader: str = ""
    members: tuple[GroupMember, ...] = ()
    skip_assignment: bool = False


@attrs.frozen(slots=True)
class SyncAnswered:
    token: int
    code: int
    assignment: bytes = b""


@attrs.frozen(slots=True)
class HeartbeatAnswered:
    token: int
    code: int


@attrs.frozen(slots=True)
class LeaveAnswered:
    token: int
    code: int


@attrs.frozen(slots=True)
class AssignmentMade:
    """The leader's assignor is done: member id -> its assignment, encoded."""

    token: int
    assignments: Mapping[str, bytes]


@attrs.frozen(slots=True)
class AssignmentFailed:
    token: int
    error: Exception


@attrs.frozen(slots=True)
class CommitRefused:
    """A commit of `generation` was answered with a code that concerns the membership."""

    generation: int
    code: int


Event = (
    JoinWanted
    | RebalanceWanted
    | LeaveWanted
    | CoordinatorFound
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


@attrs.frozen(slots=True)
class FindCoordinator:
    token: int


@attrs.frozen(slots=True)
class ForgetCoordinator:
    """The coordinator is no longer at `node_id`."""

    node_id: int
    cause: str


@attrs.frozen(slots=True)
class SendJoin:
    """`owned` was assigned in generation `owned_since` (KIP-792; -1 where nothing was)."""

    token: int
    member_id: str
    reason: str = ""
    owned: Assignment = attrs.field(factory=dict)
    owned_since: int = NO_GENERATION
    silences: int = 0
    """How often it, or a sync, was sent before and not answered."""


@attrs.frozen(slots=True)
class Assign:
    """We lead: assign partitions to `members`, in a worker thread; heartbeats go on meanwhile."""

    token: int
    generation: Generation
    members: tuple[GroupMember, ...]


@attrs.frozen(slots=True)
class Supervise:
    """We lead, but the old assignment stands (KIP-814): only watch the topics of `members`."""

    members: tuple[GroupMember, ...]


@attrs.frozen(slots=True)
class SendSync:
    """`assignments` is empty for a follower (and for a leader told to skip it, KIP-814)."""

    token: int
    generation: Generation
    assignments: Mapping[str, bytes]
    silences: int = 0
    """How often it, or the join before it, was sent before and not answered."""


@attrs.frozen(slots=True)
class SendHeartbeat:
    token: int
    generation: Generation


@attrs.frozen(slots=True)
class SendLeave:
    token: int
    member_id: str
    reason: str


@attrs.frozen(slots=True)
class Assigned:
    """Stable: `assignment` (encoded, empty bytes for no partitions) is ours in `generation`."""

    generation: Generation
    assignment: bytes


@attrs.frozen(slots=True)
class PrepareRebalance:
    """The group rebalances: by `deadline` give up what the assignors' protocol wants given up, then say JoinWanted."""

    reason: str
    deadline: float


@attrs.frozen(slots=True)
class MembershipLost:
    """All that was owned is lost: stop, commit nothing, say JoinWanted."""

    reason: str


@attrs.frozen(slots=True)
class Left:
    """We are no member any more. `taken`: the coordinator has taken our leave, for there was one to take: who has not
    joined has nothing to leave, and a static member does not. `reason` is what it was told."""

    taken: bool
    reason: str


@attrs.frozen(slots=True)
class Fail:
    """Nothing more will come: the membership has failed for good. Stop, commit nothing, say LeaveWanted."""

    error: Exception


@attrs.frozen(slots=True)
class StateChanged:
    before: str
    after: str
    cause: str
    trigger: str


@attrs.frozen(slots=True)
class RetryScheduled:
    what: str
    attempt: int
    elapsed: float
    delay: float
    cause: str
    kind: str
    """The request's name."""


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
