"""Events for the session's state machine, and the commands and jobs that it returns. Plain data.

A command is executed at once. A job takes time: the runner runs one job at a time, and reports its end as an event.
Times are in seconds, on the caller's monotonic clock. The classes are msgspec Structs: an attrs class takes half a
millisecond to create.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sarameya.errors import SarameyaError
from sarameya.group.membership.notices import CloseWanted, NewAssignment
from sarameya.model import CommittedOffset, Generation, TopicPartition
from sarameya.observe import Event as ObservedEvent
from sarameya.protocol.membership.messages import Fail, JoinWanted, LeaveWanted, MembershipLost, PrepareRebalance
from sarameya.protocol.subscription import Wanted

CommittedOffsets = Mapping[TopicPartition, CommittedOffset | None]
"""The group's committed offset of each partition; None if there is none."""

# -- events: from the runner --------------------------------------------------------------------------


class SubscriptionRead(msgspec.Struct, frozen=True):
    """The subscription, read after it has changed; None if it was dropped."""

    wanted: Wanted | None


class EndWanted(msgspec.Struct, frozen=True):
    """The handler has requested the end of the session (`Session.end`)."""

    reason: str


class Cancelled(msgspec.Struct, frozen=True):
    """`consume()` was cancelled, and with it all tasks of the handler."""


class ReaderReturned(msgspec.Struct, frozen=True):
    """A reader has returned although it was not stopped."""

    reason: str


class ReaderFailed(msgspec.Struct, frozen=True):
    """A reader has raised an exception.

    Attributes:
        name: Name of the reader.
        partition: The partition whose messages it was processing; None if unknown.
        position: Offset of the next message of that partition.
        error: The exception.
    """

    name: str
    partition: TopicPartition | None
    position: int
    error: Exception


class CallFailed(msgspec.Struct, frozen=True):
    """A method of the handler that is not a reader has raised an exception."""

    name: str
    error: Exception


class TasksEnded(msgspec.Struct, frozen=True):
    """Every task of the handler has ended."""


class ShutdownCutOff(msgspec.Struct, frozen=True):
    """The time for the last calls and the last commit is over; the running job was cancelled."""


class TasksStuck(msgspec.Struct, frozen=True):
    """The names of the tasks that still run after the deadline; may be empty."""

    names: tuple[str, ...]


class OffsetsFetched(msgspec.Struct, frozen=True):
    """The end of `FetchOffsets`. `committed` is None if the fetch was cancelled."""

    committed: CommittedOffsets | None


class OffsetsFailed(msgspec.Struct, frozen=True):
    """The end of `FetchOffsets`: the group's committed offsets could not be fetched."""

    error: SarameyaError


class Drained(msgspec.Struct, frozen=True):
    """The end of `Drain`. `not_started` has the partitions whose start was cancelled."""

    not_started: frozenset[TopicPartition] = frozenset()


class CallEnded(msgspec.Struct, frozen=True):
    """The end of `CallHandler`: the call has returned, has raised, or was cancelled at its deadline (`cut_off`)."""

    cut_off: bool = False


class CommitEnded(msgspec.Struct, frozen=True):
    """The end of `Commit`. `in_time` is False if its deadline cancelled it. A failure is reported to observers."""

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

# -- commands: to the runner, executed at once --------------------------------------------------------


class Observe(msgspec.Struct, frozen=True):
    """Report this event to the group's observers."""

    event: ObservedEvent


class Post(msgspec.Struct, frozen=True):
    """Pass this event to the membership."""

    event: JoinWanted | LeaveWanted


class UpdateSession(msgspec.Struct, frozen=True):
    """Set generation and partitions of the handler's `Session`, and drop the pinned ids of other topics."""

    generation: Generation
    owned: frozenset[TopicPartition]


class StartPartitions(msgspec.Struct, frozen=True):
    """Determine the start offset of each partition, and start reading there."""

    committed: CommittedOffsets


class StopReaders(msgspec.Struct, frozen=True):
    """Stop the readers of these partitions (None for all), and cancel their starts.

    Iterators end. Tasks that still run at `grace_ends` are cancelled. A repeated stop can only move that to an earlier
    time.
    """

    partitions: frozenset[TopicPartition] | None
    grace_ends: float


class BreakOffFetch(msgspec.Struct, frozen=True):
    """Cancel `FetchOffsets`: a newer assignment, or a rebalance, has priority."""


class StopStarting(msgspec.Struct, frozen=True):
    """Start no more partitions, cancel the commit of revoked partitions, and stop fetching: the session ends."""


class DropOffsets(msgspec.Struct, frozen=True):
    """Drop the marks and commits of these partitions: they are revoked."""

    partitions: frozenset[TopicPartition]


class FindStuckTasks(msgspec.Struct, frozen=True):
    """Find the tasks that still run after the deadline, and report them with `TasksStuck`."""


Command = (
    Observe
    | Post
    | UpdateSession
    | StartPartitions
    | StopReaders
    | BreakOffFetch
    | StopStarting
    | DropOffsets
    | FindStuckTasks
)

# -- jobs: to the runner, one at a time ---------------------------------------------------------------


class FetchOffsets(msgspec.Struct, frozen=True):
    """Fetch the group's committed offsets of these partitions."""

    partitions: tuple[TopicPartition, ...]


class CallHandler(msgspec.Struct, frozen=True):
    """Call this method of the handler.

    Attributes:
        name: Name of the method.
        partitions: Its argument, if it has one.
        shielded: A cancellation of `consume()` shall only shorten the time of the call, not cancel it.
    """

    name: str
    partitions: tuple[TopicPartition, ...] = ()
    shielded: bool = False


class Drain(msgspec.Struct, frozen=True):
    """Wait until the stopped readers and the cancelled starts of these partitions have ended."""

    partitions: frozenset[TopicPartition]


class Commit(msgspec.Struct, frozen=True):
    """Commit all marks: of revoked partitions or, if it `is_last`, at the end of the session."""

    is_last: bool


Job = FetchOffsets | CallHandler | Drain | Commit
