"""Events that go into the session's state machine, and the commands and jobs that come out of it. Plain data.

A command is carried out at once. A job takes time: the runner does one job at a time, and reports its end as an event.
Times are those of the caller's monotonic clock, in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from sarameya.errors import SarameyaError
from sarameya.model import Assignment, CommittedOffset, Generation, TopicPartition
from sarameya.observe import Event as ObservedEvent
from sarameya.protocol.membership.messages import Fail, JoinWanted, LeaveWanted, Left, MembershipLost, PrepareRebalance
from sarameya.protocol.subscription import Wanted

CommittedOffsets = Mapping[TopicPartition, CommittedOffset | None]
"""The group's committed offset of each partition; None where the group has committed none."""

# -- notices: from the member -------------------------------------------------------------------------


@attrs.frozen(slots=True)
class NewAssignment:
    """The partitions assigned to this member in `generation`, until the next one or until the membership is lost.

    Attributes:
        claimed: The partitions that the join named as owned. Those that `assignment` lacks stay closed to other
            members until this one joins again without them (KIP-429).
    """

    generation: Generation
    assignment: Assignment
    claimed: Assignment = attrs.field(factory=dict)


@attrs.frozen(slots=True)
class CloseWanted:
    """A request to close the group. `reason` goes to the broker (KIP-800)."""

    reason: str


@attrs.frozen(slots=True)
class SubscriptionChanged:
    """The user has changed or dropped the subscription; `Member.wanted` has the new one."""


Notice = NewAssignment | PrepareRebalance | MembershipLost | Left | Fail | CloseWanted | SubscriptionChanged
"""The reports of a member to the group's loop and to its session."""

# -- events: from the runner --------------------------------------------------------------------------


@attrs.frozen(slots=True)
class SubscriptionRead:
    """The present subscription, read after it has changed; None once it was dropped."""

    wanted: Wanted | None


@attrs.frozen(slots=True)
class EndWanted:
    """The handler wants the session to end (`Session.end`)."""

    reason: str


@attrs.frozen(slots=True)
class Cancelled:
    """`consume()` was cancelled, and with it all tasks of the handler."""


@attrs.frozen(slots=True)
class ReaderReturned:
    """A task that reads has ended, and nobody had stopped it."""

    reason: str


@attrs.frozen(slots=True)
class ReaderFailed:
    """A task that reads has raised.

    Attributes:
        partition: The partition whose messages the task had, if that is known; `position` is the next offset of it.
    """

    name: str
    partition: TopicPartition | None
    position: int
    error: Exception


@attrs.frozen(slots=True)
class CallFailed:
    """A method of the handler that reads nothing has raised."""

    name: str
    error: Exception


@attrs.frozen(slots=True)
class TasksEnded:
    """Every task of the handler has ended."""


@attrs.frozen(slots=True)
class ShutdownCutOff:
    """The time for the last calls and the last commit is over; the job under way was cancelled."""


@attrs.frozen(slots=True)
class TasksStuck:
    """The tasks that still run after the deadline, by name; maybe none."""

    names: tuple[str, ...]


@attrs.frozen(slots=True)
class OffsetsFetched:
    """The end of `FetchOffsets`. `committed` is None where the fetch was broken off."""

    committed: CommittedOffsets | None


@attrs.frozen(slots=True)
class OffsetsFailed:
    """The end of `FetchOffsets`: the group's offsets cannot be had."""

    error: SarameyaError


@attrs.frozen(slots=True)
class Drained:
    """The end of `Drain`. `not_started`: partitions that had not started yet and do not start now."""

    not_started: frozenset[TopicPartition] = frozenset()


@attrs.frozen(slots=True)
class CallEnded:
    """The end of `CallHandler`, whether the call has returned or raised, or was `cut_off` at its limit."""

    cut_off: bool = False


@attrs.frozen(slots=True)
class CommitEnded:
    """The end of `Commit`. A commit that has failed is reported by whoever sends it."""

    in_time: bool = True


Event = (
    NewAssignment
    | PrepareRebalance
    | SubscriptionRead
    | MembershipLost
    | Fail
    | CloseWanted
    | EndWanted
    | Cancelled
    | ReaderReturned
    | ReaderFailed
    | CallFailed
    | TasksEnded
    | ShutdownCutOff
    | TasksStuck
    | OffsetsFetched
    | OffsetsFailed
    | Drained
    | CallEnded
    | CommitEnded
)

# -- commands: to the runner, carried out at once -----------------------------------------------------


@attrs.frozen(slots=True)
class Observe:
    """Report this to the group's observers."""

    event: ObservedEvent


@attrs.frozen(slots=True)
class Post:
    """Pass this on to the membership."""

    event: JoinWanted | LeaveWanted


@attrs.frozen(slots=True)
class UpdateSession:
    """Show the handler's `Session` this generation and these partitions; pin the ids of their topics."""

    generation: Generation
    owned: frozenset[TopicPartition]


@attrs.frozen(slots=True)
class StartPartitions:
    """Find the start offset of each partition, and read it from there."""

    committed: CommittedOffsets


@attrs.frozen(slots=True)
class StopReaders:
    """Stop reading these partitions, None for all, and cancel their starts.

    Iterators end; tasks still going on at `grace_ends` are cancelled. A repeated stop can only bring that nearer.
    """

    partitions: frozenset[TopicPartition] | None
    grace_ends: float


@attrs.frozen(slots=True)
class LimitTime:
    """The deadline has come nearer: shorten the jobs under way."""


@attrs.frozen(slots=True)
class BreakOffFetch:
    """Cancel `FetchOffsets`: a newer assignment, or a rebalance, goes first."""


@attrs.frozen(slots=True)
class StopStarting:
    """The session ends: start no partition any more, break off the commit of revoked ones, and fetch no records."""


@attrs.frozen(slots=True)
class DropOffsets:
    """Forget the marks and commits of these partitions: they are revoked."""

    partitions: frozenset[TopicPartition]


@attrs.frozen(slots=True)
class FindStuckTasks:
    """The deadline is over: answer with `TasksStuck`."""


Command = (
    Observe
    | Post
    | UpdateSession
    | StartPartitions
    | StopReaders
    | LimitTime
    | BreakOffFetch
    | StopStarting
    | DropOffsets
    | FindStuckTasks
)

# -- jobs: to the runner, one at a time ---------------------------------------------------------------


@attrs.frozen(slots=True)
class FetchOffsets:
    """Fetch the group's committed offsets."""

    partitions: tuple[TopicPartition, ...]


@attrs.frozen(slots=True)
class CallHandler:
    """Call this method of the handler, with partitions if it takes any."""

    name: str
    partitions: tuple[TopicPartition, ...] = ()


@attrs.frozen(slots=True)
class Drain:
    """Wait until the readers and the starts of these partitions, which were stopped, have ended."""

    partitions: frozenset[TopicPartition]


@attrs.frozen(slots=True)
class Commit:
    """Commit all that is marked: before partitions are revoked, or, where it `is_last`, at the end of the session."""

    is_last: bool


Job = FetchOffsets | CallHandler | Drain | Commit


# -- the outcome --------------------------------------------------------------------------------------


@attrs.define(slots=True)
class SessionOutcome:
    """The end of a session.

    Attributes:
        deadline: The time by which its member must have joined again, or left.
        failures: Exceptions of the handler, and errors of parts that missed the deadline.
        lost: The membership is over; nothing can be committed any more.
        closing: The group is being closed.
        rebalanced: A rebalance has ended it, and no failure.
        fatal: The error that failed the membership.
        next: An assignment that came while the session ended: the next session starts with it.
    """

    reason: str = ""
    deadline: float = math.inf
    failures: list[Exception] = attrs.field(factory=list)
    lost: bool = False
    closing: bool = False
    rebalanced: bool = False
    fatal: Exception | None = None
    next: NewAssignment | None = None

    @property
    def all_failures(self) -> list[Exception]:
        """The failure of the membership, if there is one, and the others after it."""
        return [self.fatal, *self.failures] if self.fatal is not None else self.failures

    def text(self, group: str) -> str:
        """Return the message of the group of failures."""
        return f"group {group!r}: {self.reason}"
