"""What a member is doing at this moment: for metrics, for readiness and for pages, which ask when they want to know.

Times are ages, in seconds on trio's clock: who reads them need not know when they were taken by another clock.
"""

from __future__ import annotations

from enum import StrEnum

import attrs

from sarameya.model import TopicPartition


class Activity(StrEnum):
    """What is going on with a partition. Where several could be said, the first one of these is."""

    GIVING_UP = "giving up"
    """Its claim is asked to finish, or has, and what is to be done at its end is not yet."""
    PAUSED = "paused"
    BACKPRESSURED = "backpressured"
    """Its handler has taken nothing for longer than `Config.max_processing_time`: nothing more is fetched."""
    LANDING = "landing"
    """Its handler says that it writes what it has taken where it belongs (`Claim.report`)."""
    COMMITTING = "committing"
    """Its marks are on their way to the coordinator."""
    IN_HANDLER = "in handler"
    """Its handler was given something, and has not come back for more."""
    RETRYING = "retrying"
    """Whoever serves it, or is to take what was read, does not, and is looked for or asked again: `attempt` and
    `reason` say how often, and why."""
    RESETTING = "resetting"
    """Its log does not have the position (any more): where to go on is being found out."""
    NO_ROOM = "no room"
    """Nothing more is fetched of it, since so much is kept of it, or of others (`Config.fetch_buffer_bytes`)."""
    FETCHING = "fetching"
    """Its handler waits for more, and the broker is asked for it."""
    STARTING = "starting"
    """It is assigned, and where it begins is being found out."""


def held_text(partition: TopicPartition, offset: int, last_offset: int) -> str:
    """Return the name of some records of a partition: `orders-3 offset 3001`, `orders-3 offsets 3001 to 3500`."""
    offsets = f"offset {offset}" if last_offset <= offset else f"offsets {offset} to {last_offset}"
    return f"{partition} {offsets}"


def overdue_text(partition: TopicPartition, offset: int, last_offset: int, seconds: float) -> str:
    """Return the line about a handler that holds records for too long."""
    return f"handler has held {held_text(partition, offset, last_offset)} for {seconds:.0f} s"


@attrs.frozen(slots=True, kw_only=True)
class OverdueHandler:
    """Records that a handler has held for too long; `str` of it is a line for a person.

    The limit is ten times `Config.max_processing_time`, and at least 30 seconds, without a sign of work: the handler
    has not asked for more, marked anything, or reported what it does (`Claim.report`).
    """

    partition: TopicPartition
    offset: int
    """The first of the records."""
    last_offset: int
    """The last one; `offset` where the handler holds one message."""
    seconds: float
    """How long the handler has held them."""
    stack: str = ""
    """Where its task stands; empty where too many handlers are overdue."""

    def __str__(self) -> str:
        return overdue_text(self.partition, self.offset, self.last_offset, self.seconds)


@attrs.frozen(slots=True, kw_only=True)
class PartitionStatus:
    """One assigned partition. Offsets are -1 where they are not known."""

    partition: TopicPartition
    activity: Activity
    seconds: float = 0.0
    """For how long so; 0 for STARTING."""
    reason: str = ""
    attempt: int = 0
    """Of RETRYING: which try the next one is."""
    attempts: int = 0
    """Of RETRYING: the last one that is tried (`Config.retry_max_attempts`); 0 where no number bounds it."""
    position: int = -1
    """The next offset that the handler is given."""
    high_water_mark: int = -1
    lag: int = -1
    """The position's: as `Claim.lag`."""
    committed_lag: int = -1
    """How many offsets the commit is behind the log's end: what Kafka's own tools call lag."""
    landed_lag: int = -1
    """How many offsets `landed` is behind the log's end."""
    unlanded_seconds: float = -1.0
    """The age of the oldest record that was read and is not landed or, where its handler does not tell what has landed,
    not committed; by its timestamp, and to the batch in which it was read. 0 where all is read and there is none, -1
    where it is not known."""
    marked: int = -1
    committed: int = -1
    uncommitted_seconds: float = 0.0
    """For how long the coordinator has been asked to take its marks, and has taken none; 0 where it took the last."""
    landed: int = -1
    """Up to where its handler says that what was read is where it belongs."""
    broker: int = -1
    """The node that it is read from."""
    asked_seconds: float = -1.0
    """How long ago a broker has last answered for it, if only that there is nothing new."""
    buffered_bytes: int = 0
    """What has been fetched of it and not been dealt with, what its handler holds included."""
    held_bytes: int = 0
    """What its handler holds (`Claim.hold`)."""
    records_total: int = 0
    """Messages that were laid ready for its handler since it is read."""
    bytes_total: int = 0
    """Bytes of record batches, as they travel, that were taken apart for that."""
    handler_seconds: float = 0.0
    """How long its handler was at work since then: from being given something to asking for more."""
    backpressured_seconds: float = 0.0
    """For how long it is BACKPRESSURED, also where something else is its `activity`; 0 where it is not."""
    backpressure_seconds: float = 0.0
    """How long it was, in all, since it is read."""
    overdue: OverdueHandler | None = None
    """Records of it that its handler has held for too long."""


@attrs.frozen(slots=True, kw_only=True)
class GroupStatus:
    """One member of a group. Before it has joined, and after it has left, `generation` is -1."""

    group: str
    state: str
    """Of the membership machine: the names of `protocol.membership_states.State`; "closed" where nothing consumes."""
    seconds: float = 0.0
    """For how long in this state."""
    member_id: str = ""
    generation: int = -1
    assignor: str = ""
    is_leader: bool = False
    coordinator: int = -1
    """Its node id."""
    coordinator_seconds: float = -1.0
    """How long ago it has last answered a join, a sync or a heartbeat; -1 where it has not."""
    session_timeout: float = 0.0
    """After so many seconds without a heartbeat the group gives the member up, whatever its `state` says:
    `Config.session_timeout`."""
    blocked_seconds: float = 0.0
    """Length of the last time that the event loop was blocked for a third of the session timeout or longer."""
    blocked_ago: float = -1.0
    """Seconds since that was over; -1 where it has not happened."""
    blocked_at: str = ""
    """FILE:LINE in FUNCTION of the call that blocked it."""
    partitions: tuple[PartitionStatus, ...] = ()
    """In order."""
    buffered_bytes: int = 0
    budget_bytes: int = 0
    """How many may be buffered: `Config.fetch_buffer_bytes`."""
