"""The events of groups, sessions, claims, fetching, commits and connections. What handlers tell is `landings.py`'s."""

from __future__ import annotations

import re

import attrs

from sarameya.model import Assignment, Generation, TopicPartition

RETRIED = (
    "metadata",
    "topics",
    "find_coordinator",
    "join",
    "assignment",
    "sync",
    "heartbeat",
    "leave",
    "offset_fetch",
    "offset_lookup",
    "leader_epochs",
    "leader",
    "fetch",
    "commit",
    "session",
)
"""What a group's member tries again."""

_FOR_PROGRAMS = "for programs"
"""Of a field that says to a person nothing new."""


@attrs.frozen(slots=True)
class Event:
    """The root of all events. Durations are seconds. `str` of one is a line for a person, `repr` is for programmers."""

    def __str__(self) -> str:
        words = re.sub(r"(?<!^)(?=[A-Z])", " ", type(self).__name__).lower()
        names = [field.name for field in attrs.fields(type(self)) if _FOR_PROGRAMS not in field.metadata]
        return " ".join([f"{words}:", *(f"{name}={_shown(getattr(self, name))}" for name in names)])


@attrs.frozen(slots=True)
class MembershipChanged(Event):
    """The membership machine moved from one state to another (names as in `protocol.membership.State`)."""

    group: str
    before: str
    after: str
    cause: str
    trigger: str = ""
    """What moved it, of `protocol.membership_states.Input`, in lower case: one of a few, which `cause` is not."""


@attrs.frozen(slots=True)
class CoordinatorFound(Event):
    """Where the group's coordinator is: told whenever it has been looked for, whether it has moved or not."""

    group: str
    node_id: int
    host: str
    port: int


@attrs.frozen(slots=True)
class Retrying(Event):
    """Something is being tried again: what, for which time, since how long, in how long, and why."""

    what: str
    attempt: int
    elapsed: float
    delay: float
    cause: str
    kind: str = attrs.field(metadata={_FOR_PROGRAMS: True})
    """Which of few things that is, `what` being in words and of many: of a member, one of `RETRIED`."""


@attrs.frozen(slots=True)
class SessionStarted(Event):
    """A session begins, before `setup`: what is assigned to it in its first generation, of which nothing is read yet.

    Under a cooperative assignor it may go on through later generations, each told by PartitionsAssigned.
    """

    group: str
    generation: Generation
    assignment: Assignment


@attrs.frozen(slots=True)
class SessionEnding(Event):
    """Claims are asked to finish. `lost`: the membership is gone, nothing can be committed any more."""

    group: str
    generation: Generation
    reason: str
    lost: bool


@attrs.frozen(slots=True)
class SessionEnded(Event):
    """A session is over: its claims have ended, `cleanup` has run and the last commit is done, or time was up.

    `generation` is the one that it had come to. Also told of a session that failed before it was SessionStarted.
    """

    group: str
    generation: Generation
    reason: str


@attrs.frozen(slots=True)
class PartitionsAssigned(Event):
    """A generation's assignment: what came, and what was kept and read on."""

    group: str
    generation: Generation
    added: tuple[TopicPartition, ...]
    kept: tuple[TopicPartition, ...]


@attrs.frozen(slots=True)
class PartitionsRevoked(Event):
    """Partitions are given up to other members; the session goes on with the rest (KIP-429)."""

    group: str
    generation: Generation
    partitions: tuple[TopicPartition, ...]


@attrs.frozen(slots=True)
class ClaimStarted(Event):
    """A partition is read from now on. `offset` is where that begins: the first message has it, or a later one."""

    partition: TopicPartition
    offset: int
    why: str
    """`committed`, `handler`, `added` (while this member ran), `given` (to a `Consumer`), or the reset policy that
    chose the offset."""


@attrs.frozen(slots=True)
class ClaimEnded(Event):
    """A partition is no longer read, for whatever reason. `offset` is the next that its handler would have been given.

    All that it was given lies below; that says nothing of what is marked or committed. The other numbers are of the
    whole claim, as `PartitionStatus` has them while it is read.
    """

    partition: TopicPartition
    offset: int
    records: int = 0
    size_bytes: int = 0
    handler_seconds: float = 0.0
    backpressure_seconds: float = 0.0


@attrs.frozen(slots=True)
class ClaimCancelled(Event):
    """A claim's handler had not finished within its grace and was cancelled."""

    partition: TopicPartition
    grace: float


@attrs.frozen(slots=True)
class CallCancelled(Event):
    """`setup` or `partitions_assigned` was still going on when a rebalance could wait no longer, and was cancelled: the
    session ends, since nothing may be read on the strength of it."""

    group: str
    generation: Generation
    call: str


@attrs.frozen(slots=True)
class GroupLeft(Event):
    """The coordinator has taken our leave. A static member does not leave, and tells none (KIP-345)."""

    group: str
    reason: str


@attrs.frozen(slots=True)
class LeaveFailed(Event):
    """The coordinator has not taken our leave in time: the group notices only after the session timeout that we are
    gone. If it takes it after all, while this member still runs and has not joined anew, `GroupLeft` follows."""

    group: str
    cause: str


@attrs.frozen(slots=True)
class PartitionsPaused(Event):
    """These, or everything that is and will be assigned, are held back until they are resumed."""

    group: str
    partitions: tuple[TopicPartition, ...]
    everything: bool


@attrs.frozen(slots=True)
class PartitionsResumed(Event):
    """These, or everything that was paused, are read again."""

    group: str
    partitions: tuple[TopicPartition, ...]
    everything: bool


@attrs.frozen(slots=True)
class TaskStuck(Event):
    """A handler's task swallowed its cancellation, or waits where it cannot be reached; the member has left.

    Python cannot stop it. `stack` is where it stands, as `traceback` formats it.
    """

    what: str
    stack: str

    def __str__(self) -> str:
        return f"task stuck: {self.what} does not end; it stands at\n{self.stack.rstrip()}"


@attrs.frozen(slots=True)
class LoopBlocked(Event):
    """The event loop was blocked for longer than a third of `Config.session_timeout`, by a handler or another task.

    No heartbeat was sent meanwhile. Reported once the loop runs again; the log has a line with the stack before that.

    Attributes:
        seconds: Length of the blockage.
        where: FILE:LINE in FUNCTION, of the innermost frame that is no library's.
        stack: As `traceback` formats it; empty where none could be taken.
    """

    group: str
    seconds: float
    where: str
    stack: str = attrs.field(metadata={_FOR_PROGRAMS: True})

    def __str__(self) -> str:
        return f"loop blocked: for {self.seconds:.1f} s no heartbeat of group {self.group} could be sent; {self.where}"


@attrs.frozen(slots=True)
class OffsetReset(Event):
    """A position was not in the log, and was moved. From `before` to `log_start`, `gone` offsets were deleted before
    they were read; what the policy leaves out besides lies between `log_start` and `after`."""

    partition: TopicPartition
    before: int
    after: int
    policy: str
    """`Config.offset_out_of_range` as it is for the topic, as text."""
    reason: str
    """Why it was not in the log: it was out of range, or the log was truncated."""
    log_start: int
    log_end: int
    """The next offset to be written, when this was asked."""
    gone: int


@attrs.frozen(slots=True)
class InterceptorFailed(Event):
    """An interceptor raised. `is_skipped`: messages are handed on without it, and this is not told again before it has
    recovered; else its claim fails. `partition` and `offset` (of the first message) are None for `on_commit`."""

    interceptor: str
    call: str
    partition: TopicPartition | None
    offset: int | None
    error: str
    is_skipped: bool


@attrs.frozen(slots=True)
class InterceptorRecovered(Event):
    """An interceptor that was skipped works again, after `missed` messages of the partition (or commits)."""

    interceptor: str
    call: str
    partition: TopicPartition | None
    missed: int


@attrs.frozen(slots=True)
class PartitionBackpressured(Event):
    """A handler has taken nothing of what was fetched for `Config.max_processing_time`, or up to twice that: its
    partition is not fetched before all that is buffered has been taken. `buffered` is that in bytes."""

    partition: TopicPartition
    buffered: int


@attrs.frozen(slots=True)
class BackpressureEnded(Event):
    """What was buffered has been taken, after so many seconds: the partition is fetched again; or its claim is over."""

    partition: TopicPartition
    seconds: float


@attrs.frozen(slots=True)
class FetchBufferFull(Event):
    """For so many seconds nothing has been fetched from a broker, though there are partitions whose handlers have taken
    everything: `buffered` bytes, all of `Config.fetch_buffer_bytes`, are what others have not dealt with. Where that is
    so for long, there is not room for a record batch of each partition: raise it."""

    node_id: int
    buffered: int
    seconds: float


@attrs.frozen(slots=True)
class ReadReplicaChanged(Event):
    """A partition is read from a replica nearer than its leader (KIP-392) or, `None`, from its leader again."""

    partition: TopicPartition
    node_id: int | None
    cause: str


@attrs.frozen(slots=True)
class LeaderChanged(Event):
    """A partition is being read from another broker (`None`: no leader is known, it waits)."""

    partition: TopicPartition
    before: int | None
    after: int | None
    cause: str


@attrs.frozen(slots=True)
class ConnectionLost(Event):
    """A connection ended on which an answer was awaited; any other ends unsaid, since nobody loses by it.

    `node_id` is negative for an address of `bootstrap_servers` whose broker is not known yet.
    """

    node_id: int
    address: str
    cause: str


@attrs.frozen(slots=True)
class Committed(Event):
    """Offsets the coordinator has acknowledged: partition -> next offset to read."""

    group: str
    offsets: dict[TopicPartition, int]


@attrs.frozen(slots=True)
class CommitFailed(Event):
    """A commit that nobody awaits (autocommit) failed; the marks stay dirty and go out again."""

    group: str
    cause: str


@attrs.frozen(slots=True)
class TlsFilesRenewed(Event):
    """Certificates or keys have changed on the disk: connections are made with what stands there now."""

    files: tuple[str, ...]


@attrs.frozen(slots=True)
class TlsFilesRefused(Event):
    """Certificates or keys have changed on the disk to what cannot be used: connections are made as before."""

    problem: str


@attrs.frozen(slots=True)
class RenewalFailed(Event):
    """A broker wants to know anew who we are (KIP-368), and there is nothing to show it: no token, say. It is tried
    again until its session ends, in `left` seconds, and the connection with it."""

    address: str
    left: float
    cause: str


@attrs.frozen(slots=True)
class WeakSecurity(Event):
    """Once a client: an option is allowed, and leaves open to others what it should not."""

    option: str
    problem: str


def _shown(value: object) -> str:
    match value:
        case Generation():
            return str(value.id)
        case TopicPartition() | int() | None:
            return str(value)
        case float():
            return f"{value:.2f}"
        case dict():
            return ",".join(f"{key}:{_shown(item)}" for key, item in value.items()) or "none"
        case tuple():
            return "[" + " ".join(map(_shown, value)) + "]"
    text = str(value)
    return repr(text) if " " in text or not text else text
