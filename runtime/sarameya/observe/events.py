"""Events of groups, sessions, claims, fetching, commits and connections. `landings.py` has those of handlers."""

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
"""Marks a field that is of no use to a person."""


@attrs.frozen(slots=True)
class Event:
    """Base class of all events. Durations are seconds. `str` is a line for a person, `repr` is for programmers."""

    def __str__(self) -> str:
        words = re.sub(r"(?<!^)(?=[A-Z])", " ", type(self).__name__).lower()
        names = [field.name for field in attrs.fields(type(self)) if _FOR_PROGRAMS not in field.metadata]
        return " ".join([f"{words}:", *(f"{name}={_shown(getattr(self, name))}" for name in names)])


@attrs.frozen(slots=True)
class MembershipChanged(Event):
    """A change of the membership's state (names as in `protocol.membership.states.State`)."""

    group: str
    before: str
    after: str
    cause: str
    trigger: str = ""
    """Input that caused it, from `protocol.membership.states.Input`, in lower case: one of a few, unlike `cause`."""


@attrs.frozen(slots=True)
class CoordinatorFound(Event):
    """Address of the group's coordinator, after each search, whether it has moved or not."""

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
    """Kind of the operation, one of few (`what` is in words): of a member, one of `RETRIED`."""


@attrs.frozen(slots=True)
class SessionStarted(Event):
    """Start of a session, before `setup`: its first assignment, of which nothing is read yet.

    Under a cooperative assignor the session may continue through later generations, each reported by
    PartitionsAssigned.
    """

    group: str
    generation: Generation
    assignment: Assignment


@attrs.frozen(slots=True)
class SessionEnding(Event):
    """Start of a session's end: its claims drain.

    `lost`: the membership is lost, and nothing can be committed any more.
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
    """Assignment of a generation: new partitions, and those that were kept and read on."""

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
    """Start of a claim at `offset`: the first message has it, or a later one."""

    partition: TopicPartition
    offset: int
    why: str
    """Origin of the offset.

    `committed`, `handler`, `added` (while this member ran), `given` (to a `Consumer`), or the reset policy.
    """


@attrs.frozen(slots=True)
class ClaimEnded(Event):
    """End of a claim, for whatever reason. `offset` is the handler's final position.

    All its messages are below that offset; marks and commits may be anywhere. The other numbers cover the whole claim,
    as `PartitionStatus` has them while it runs.
    """

    partition: TopicPartition
    offset: int
    records: int = 0
    size_bytes: int = 0
    handler_seconds: float = 0.0
    backpressure_seconds: float = 0.0


@attrs.frozen(slots=True)
class ClaimCancelled(Event):
    """Cancellation of a claim whose handler did not end within its grace."""

    partition: TopicPartition
    grace: float


@attrs.frozen(slots=True)
class CallCancelled(Event):
    """Cancellation of `setup` or `partitions_assigned` at the rebalance deadline.

    The session ends, since nothing may be read without that call.
    """

    group: str
    generation: Generation
    call: str


@attrs.frozen(slots=True)
class GroupLeft(Event):
    """Acceptance of our leave by the coordinator. A static member does not leave, and reports none (KIP-345)."""

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
    """Pause of these partitions, or of everything that is and will be assigned, until a resume."""

    group: str
    partitions: tuple[TopicPartition, ...]
    everything: bool


@attrs.frozen(slots=True)
class PartitionsResumed(Event):
    """Resume of these partitions, or of everything that was paused."""

    group: str
    partitions: tuple[TopicPartition, ...]
    everything: bool


@attrs.frozen(slots=True)
class TaskStuck(Event):
    """A handler's task that swallowed its cancellation, or waits where it cannot be reached; the member has left.

    Python cannot stop it. `stack` is its present stack, as `traceback` formats it.
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
        seconds: Length of the blockage.
        where: FILE:LINE in FUNCTION, of the innermost frame outside of libraries.
        stack: As `traceback` formats it; empty if none could be taken.
    """

    group: str
    seconds: float
    where: str
    stack: str = attrs.field(metadata={_FOR_PROGRAMS: True})

    def __str__(self) -> str:
        return f"loop blocked: for {self.seconds:.1f} s no heartbeat of group {self.group} could be sent; {self.where}"


@attrs.frozen(slots=True)
class OffsetReset(Event):
    """A position that was not in the log, and was moved.

    From `before` to `log_start`, `gone` offsets were deleted before they were read. The offsets that the policy skips
    in addition are between `log_start` and `after`.
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
    """An interceptor that raised.

    `is_skipped`: messages are delivered without it, and no other failure is reported before it recovers; otherwise its
    claim fails. `partition` and `offset` (of the first message) are None for `on_commit`.
    """

    interceptor: str
    call: str
    partition: TopicPartition | None
    offset: int | None
    error: str
    is_skipped: bool


@attrs.frozen(slots=True)
class InterceptorRecovered(Event):
    """A skipped interceptor that works again, after `missed` messages of the partition (or commits)."""

    interceptor: str
    call: str
    partition: TopicPartition | None
    missed: int


@attrs.frozen(slots=True)
class PartitionBackpressured(Event):
    """A handler that took no messages for `Config.max_processing_time`, or up to twice that.

    Its partition is not fetched until the buffer, of `buffered` bytes, is empty.
    """

    partition: TopicPartition
    buffered: int


@attrs.frozen(slots=True)
class BackpressureEnded(Event):
    """End of a backpressure after `seconds`.

    The buffer is empty and the partition is fetched again, or its claim is over.
    """

    partition: TopicPartition
    seconds: float


@attrs.frozen(slots=True)
class FetchBufferFull(Event):
    """A broker from which nothing was fetched for `seconds`, since the byte budget is full.

    There are partitions whose handlers have taken everything, but other partitions hold `buffered` bytes, all of
    `Config.fetch_buffer_bytes`. If that persists, there is no room for a record batch of each partition: raise the
    option.
    """

    node_id: int
    buffered: int
    seconds: float


@attrs.frozen(slots=True)
class ReadReplicaChanged(Event):
    """A partition that is read from a replica nearer than its leader (KIP-392) or, `None`, from its leader again."""

    partition: TopicPartition
    node_id: int | None
    cause: str


@attrs.frozen(slots=True)
class LeaderChanged(Event):
    """A partition that is read from another broker (`None`: no leader is known, it waits)."""

    partition: TopicPartition
    before: int | None
    after: int | None
    cause: str


@attrs.frozen(slots=True)
class ConnectionLost(Event):
    """A connection that ended while a response was expected; the end of any other concerns nobody.

    `node_id` is negative for a bootstrap server whose broker is not known yet.
    """

    node_id: int
    address: str
    cause: str


@attrs.frozen(slots=True)
class Committed(Event):
    """Commit that the coordinator has acknowledged: partition -> next offset to read."""

    group: str
    offsets: dict[TopicPartition, int]


@attrs.frozen(slots=True)
class CommitFailed(Event):
    """A failed commit that no caller waits for (autocommit). The marks stay dirty and are sent again."""

    group: str
    cause: str


@attrs.frozen(slots=True)
class TlsFilesRenewed(Event):
    """New certificates or keys on the disk: new connections use them."""

    files: tuple[str, ...]


@attrs.frozen(slots=True)
class TlsFilesRefused(Event):
    """New, unusable certificates or keys on the disk: new connections use the previous ones."""

    problem: str


@attrs.frozen(slots=True)
class RenewalFailed(Event):
    """A broker's session that could not be renewed (KIP-368), since no credentials were available.

    The renewal is retried until the session, and with it the connection, ends in `left` seconds.
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
