"""Events of groups, sessions, claims, fetching, commits and connections. `landings.py` has the events of handlers."""

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
"""Kinds of retries of a group's member."""

_FOR_PROGRAMS = "for programs"
"""Metadata key of fields that `str(event)` omits."""


@attrs.frozen(slots=True)
class Event:
    """Base class of all events. Durations are in seconds. `str(event)` is a log line."""

    def __str__(self) -> str:
        words = re.sub(r"(?<!^)(?=[A-Z])", " ", type(self).__name__).lower()
        names = [field.name for field in attrs.fields(type(self)) if _FOR_PROGRAMS not in field.metadata]
        return " ".join([f"{words}:", *(f"{name}={_shown(getattr(self, name))}" for name in names)])


@attrs.frozen(slots=True)
class MembershipChanged(Event):
    """A change of the membership's state; `before` and `after` are names of `protocol.membership.states.State`."""

    group: str
    before: str
    after: str
    cause: str
    trigger: str = ""
    """Input that caused the change: a name of `protocol.membership.states.Input`, in lower case."""


@attrs.frozen(slots=True)
class CoordinatorFound(Event):
    """Address of the group's coordinator. Reported after each lookup, even if the coordinator has not changed."""

    group: str
    node_id: int
    host: str
    port: int


@attrs.frozen(slots=True)
class Retrying(Event):
    """A retry of an operation (`what`) after `delay` seconds.

    `attempt` is its number, `elapsed` the seconds since the first failure, `cause` the last failure.
    """

    what: str
    attempt: int
    elapsed: float
    delay: float
    cause: str
    kind: str = attrs.field(metadata={_FOR_PROGRAMS: True})
    """Kind of the operation, from a fixed set; for a group's member, one of `RETRIED`. `what` is free text."""


@attrs.frozen(slots=True)
class SessionStarted(Event):
    """Start of a session with its first assignment, before `setup` is called and before any partition is read.

    Under a cooperative assignor the session may continue through later generations, each reported by
    PartitionsAssigned.
    """

    group: str
    generation: Generation
    assignment: Assignment


@attrs.frozen(slots=True)
class SessionEnding(Event):
    """Start of a session's end: its claims drain.

    If `lost` is True, the membership is lost, and no mark can be committed any more.
    """

    group: str
    generation: Generation
    reason: str
    lost: bool


@attrs.frozen(slots=True)
class SessionEnded(Event):
    """End of a session: claims have ended, `cleanup` and the last commit are done, or the deadline has passed.

    `generation` is the last one. Also reported for a session that failed before SessionStarted.
    """

    group: str
    generation: Generation
    reason: str


@attrs.frozen(slots=True)
class PartitionsAssigned(Event):
    """Assignment of a generation: new partitions, and kept partitions, which are read without interruption."""

    group: str
    generation: Generation
    added: tuple[TopicPartition, ...]
    kept: tuple[TopicPartition, ...]


@attrs.frozen(slots=True)
class PartitionsRevoked(Event):
    """Partitions revoked for other members; the session continues with the rest (KIP-429)."""

    group: str
    generation: Generation
    partitions: tuple[TopicPartition, ...]


@attrs.frozen(slots=True)
class ClaimStarted(Event):
    """Start of a claim. The first message has this offset, or a later offset if the log has no record at it."""

    partition: TopicPartition
    offset: int
    why: str
    """Origin of the offset.

    `committed`, `handler`, `added` (the partition was added to the topic while this member ran), `given` (the user gave
    it to a `Consumer`), or the policy that was looked up.
    """


@attrs.frozen(slots=True)
class ClaimEnded(Event):
    """End of a claim. `offset` is the handler's final position: all messages that it received are below.

    Marks and commits may be below or above that offset. The other numbers cover the whole claim; while it runs, they
    are in `PartitionStatus`.
    """

    partition: TopicPartition
    offset: int
    records: int = 0
    size_bytes: int = 0
    handler_seconds: float = 0.0
    backpressure_seconds: float = 0.0


@attrs.frozen(slots=True)
class ClaimCancelled(Event):
    """Cancellation of a claim whose handler did not end within `grace` seconds."""

    partition: TopicPartition
    grace: float


@attrs.frozen(slots=True)
class CallCancelled(Event):
    """Cancellation of `setup` or `partitions_assigned` at the rebalance deadline.

    The session ends, since no partition may be read before that call has returned.
    """

    group: str
    generation: Generation
    call: str


@attrs.frozen(slots=True)
class GroupLeft(Event):
    """A leave that the coordinator has accepted. A static member never leaves (KIP-345), and reports no such event."""

    group: str
    reason: str


@attrs.frozen(slots=True)
class LeaveFailed(Event):
    """A leave that the coordinator did not accept in time: the group waits for the session timeout.

    If the coordinator accepts it later, while this member runs and has not joined again, `GroupLeft` follows.
    """

    group: str
    cause: str


@attrs.frozen(slots=True)
class PartitionsPaused(Event):
    """Pause of these partitions, or of all partitions that are assigned now or later, until a resume."""

    group: str
    partitions: tuple[TopicPartition, ...]
    everything: bool


@attrs.frozen(slots=True)
class PartitionsResumed(Event):
    """Resume of these partitions, or of all paused partitions."""

    group: str
    partitions: tuple[TopicPartition, ...]
    everything: bool


@attrs.frozen(slots=True)
class TaskStuck(Event):
    """A handler's task that does not end: it swallowed its cancellation, or waits where it cannot be cancelled.

    The member has left the group. Python cannot stop the task. `stack` is its present stack, as `traceback` formats it.
    """

    what: str
    stack: str

    def __str__(self) -> str:
        return f"task stuck: {self.what} does not end; its stack:\n{self.stack.rstrip()}"


@attrs.frozen(slots=True)
class LoopBlocked(Event):
    """Blockage of the event loop for longer than a third of `Config.session_timeout`, by a handler or another task.

    No heartbeat was sent meanwhile. Reported once the loop runs again; the log has a line with the stack before that.

    Attributes:
        seconds: Duration of the blockage.
        where: FILE:LINE in FUNCTION, of the innermost frame outside of libraries.
        stack: Stack of the blocking call, as `traceback` formats it; empty if it could not be taken.
    """

    group: str
    seconds: float
    where: str
    stack: str = attrs.field(metadata={_FOR_PROGRAMS: True})

    def __str__(self) -> str:
        return f"loop blocked: for {self.seconds:.1f} s no heartbeat of group {self.group} could be sent; {self.where}"


@attrs.frozen(slots=True)
class OffsetReset(Event):
    """A position that was not in the log, and was replaced.

    Between `before` and `log_start`, `gone` offsets were deleted before they were read. The policy also skips the
    offsets from `log_start` to `after`.
    """

    partition: TopicPartition
    before: int
    after: int
    policy: str
    """`Config.offset_out_of_range` for the topic, as text."""
    reason: str
    """Cause: out of range, or the log was truncated."""
    log_start: int
    log_end: int
    """Next offset to be written, at the time of the reset."""
    gone: int


@attrs.frozen(slots=True)
class InterceptorFailed(Event):
    """An interceptor that raised an exception.

    If `is_skipped` is True, messages are delivered without it, and no other failure is reported before it recovers.
    Otherwise the claim fails. `partition` and `offset` (of the first message) are None for `on_commit`.
    """

    interceptor: str
    call: str
    partition: TopicPartition | None
    offset: int | None
    error: str
    is_skipped: bool


@attrs.frozen(slots=True)
class InterceptorRecovered(Event):
    """A skipped interceptor that works again. It has missed `missed` messages of the partition, or commits."""

    interceptor: str
    call: str
    partition: TopicPartition | None
    missed: int


@attrs.frozen(slots=True)
class PartitionBackpressured(Event):
    """A handler that took no messages for `Config.max_processing_time`, or for up to twice that time.

    Its partition is not fetched until its buffer, of `buffered` bytes, is empty.
    """

    partition: TopicPartition
    buffered: int


@attrs.frozen(slots=True)
class BackpressureEnded(Event):
    """End of a partition's backpressure after `seconds`.

    The buffer is empty and the partition is fetched again, or its claim has ended.
    """

    partition: TopicPartition
    seconds: float


@attrs.frozen(slots=True)
class FetchBufferFull(Event):
    """A broker from which no record was fetched for `seconds`, since the byte budget is full.

    Some partitions have empty buffers, but other partitions hold `buffered` bytes, all of `Config.fetch_buffer_bytes`.
    If this happens repeatedly, there is no room for a record batch of each partition: raise the option.
    """

    node_id: int
    buffered: int
    seconds: float


@attrs.frozen(slots=True)
class ReadReplicaChanged(Event):
    """A partition that is read from a nearer replica (KIP-392) or, if `node_id` is None, from its leader again."""

    partition: TopicPartition
    node_id: int | None
    cause: str


@attrs.frozen(slots=True)
class LeaderChanged(Event):
    """A partition that is read from another broker. `after` is None while no leader is known."""

    partition: TopicPartition
    before: int | None
    after: int | None
    cause: str


@attrs.frozen(slots=True)
class ConnectionLost(Event):
    """A connection that ended while a response was expected. The end of an idle connection is not reported.

    `node_id` is negative for a bootstrap server whose broker is not known yet.
    """

    node_id: int
    address: str
    cause: str


@attrs.frozen(slots=True)
class Committed(Event):
    """A commit that the coordinator has accepted: partition -> next offset to read."""

    group: str
    offsets: dict[TopicPartition, int]


@attrs.frozen(slots=True)
class CommitFailed(Event):
    """A failed commit that no caller waits for, such as an autocommit. The next commit sends the marks again."""

    group: str
    cause: str


@attrs.frozen(slots=True)
class TlsFilesRenewed(Event):
    """New certificates or keys on the disk. New connections use them."""

    files: tuple[str, ...]


@attrs.frozen(slots=True)
class TlsFilesRefused(Event):
    """New certificates or keys on the disk that cannot be used. New connections use the previous files."""

    problem: str


@attrs.frozen(slots=True)
class RenewalFailed(Event):
    """An authenticated connection that could not be renewed (KIP-368), since no credentials were available.

    The renewal is retried until the broker ends the connection, in `left` seconds.
    """

    address: str
    left: float
    cause: str


@attrs.frozen(slots=True)
class WeakSecurity(Event):
    """A security option that is allowed but weak. Reported once for each client."""

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
