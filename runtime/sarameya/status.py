"""Snapshot of a member's state, for metrics, readiness checks and status pages.

Times are ages in seconds, so they do not depend on the reader's clock.
"""

from __future__ import annotations

from enum import StrEnum

import attrs

from sarameya.model import TopicPartition


class Activity(StrEnum):
    """Present activity of a partition. If several apply, the first of them in this list is used."""

    REVOKING = "giving up"  # the value is in others' dashboards
    """The partition is being revoked: its claim drains, or has ended while its last commit is not done yet."""
    PAUSED = "paused"
    """The user has paused the partition."""
    BACKPRESSURED = "backpressured"
    """Its handler has taken no message for longer than `Config.max_processing_time`, so it is not fetched."""
    LANDING = "landing"
    """Its handler reports that it is writing messages to their table (`Claim.report`)."""
    COMMITTING = "committing"
    """Its marks are being sent to the coordinator."""
    IN_HANDLER = "in handler"
    """Its handler processes messages."""
    RETRYING = "retrying"
    """A request for it, or a write of its messages, has failed and is retried: see `attempt` and `reason`."""
    DELAYED = "delayed"
    """Its next message is in a retry topic, and not due yet."""
    RESETTING = "resetting"
    """Its log does not have the position, so a new position is looked up."""
    NO_ROOM = "no room"
    """Not fetched, since this partition or others hold too many bytes (`Config.fetch_buffer_bytes`)."""
    FETCHING = "fetching"
    """Its handler waits for messages, and the broker has a fetch request for it."""
    STARTING = "starting"
    """The partition is assigned, and its start offset is looked up."""


def held_text(partition: TopicPartition, offset: int, last_offset: int) -> str:
    """Return a text for some records of a partition: `orders-3 offset 3001`, `orders-3 offsets 3001 to 3500`."""
    offsets = f"offset {offset}" if last_offset <= offset else f"offsets {offset} to {last_offset}"
    return f"{partition} {offsets}"


def overdue_text(partition: TopicPartition, offset: int, last_offset: int, seconds: float) -> str:
    """Return the line about an overdue handler."""
    return f"handler has held {held_text(partition, offset, last_offset)} for {seconds:.0f} s"


@attrs.frozen(slots=True, kw_only=True)
class OverdueHandler:
    """Records that a handler has held for too long. `str(handler)` is a log line.

    The limit is ten times `Config.max_processing_time`, and at least 30 seconds, without progress: the handler has not
    requested more messages, marked one, moved its landed offset, or reported an activity (`Claim.report`).
    """

    partition: TopicPartition
    offset: int
    """Offset of the first record."""
    last_offset: int
    """Offset of the last record; equal to `offset` if the handler holds one message."""
    seconds: float
    """Seconds for which the handler has held the records."""
    stack: str = ""
    """Stack of the handler's task; empty if too many handlers are overdue."""

    def __str__(self) -> str:
        return overdue_text(self.partition, self.offset, self.last_offset, self.seconds)


@attrs.frozen(slots=True, kw_only=True)
class PartitionStatus:
    """State of one assigned partition. Unknown offsets are -1."""

    partition: TopicPartition
    activity: Activity
    seconds: float = 0.0
    """Seconds since the activity started; 0 for STARTING."""
    reason: str = ""
    attempt: int = 0
    """Number of the next attempt; only for RETRYING."""
    attempts: int = 0
    """Number of the last allowed attempt (`Config.retry_max_attempts`), 0 if unlimited; only for RETRYING."""
    position: int = -1
    """Offset of the next message for the handler."""
    high_water_mark: int = -1
    lag: int = -1
    """Offsets from the position to the log end, as in `Claim.lag`."""
    committed_lag: int = -1
    """Offsets from the committed offset to the log end: the lag in Kafka's own tools."""
    landed_lag: int = -1
    """Offsets from `landed` to the log end."""
    unlanded_seconds: float = -1.0
    """Age of the oldest record that was read and has not landed or, if the handler lands nothing, is not committed.

    It is the age of the first record in the same batch, by its timestamp. 0 if there is no such record, -1 if the age
    is unknown.
    """
    marked: int = -1
    committed: int = -1
    uncommitted_seconds: float = 0.0
    """Seconds for which the coordinator has accepted no commit of its marks; 0 if it accepted the last commit."""
    landed: int = -1
    """Offset up to which the handler reports records as landed."""
    broker: int = -1
    """Node id of the broker that it is read from."""
    asked_seconds: float = -1.0
    """Seconds since that broker's last response to a fetch, even without records; -1 if there was none."""
    buffered_bytes: int = 0
    """Bytes fetched and not yet processed, including those that its handler holds."""
    held_bytes: int = 0
    """Bytes that its handler holds (`Claim.hold`)."""
    records_total: int = 0
    """Messages decoded for its handler since the claim started."""
    bytes_total: int = 0
    """Bytes, on the wire, of the decoded record batches."""
    handler_seconds: float = 0.0
    """Seconds for which its handler has processed messages since the claim started."""
    backpressured_seconds: float = 0.0
    """Seconds of the present backpressure, even if `activity` is not BACKPRESSURED; 0 if there is none."""
    backpressure_seconds: float = 0.0
    """Seconds of backpressure in total since the claim started."""
    overdue: OverdueHandler | None = None
    """Records that its handler has held for too long."""
    in_flight: int = 0
    """Messages that were handed out and are not finished, those that wait included (`Claim.concurrently`)."""
    retrying: int = 0
    """Messages among them that have failed, and wait for another attempt."""
    oldest_offset: int = -1
    """Offset of the first message in flight, to which the partition is committed; -1 if there is none."""
    oldest_seconds: float = 0.0
    """Seconds since it was handed out."""
    oldest_key: str = ""
    """The start of its key, as text."""


@attrs.frozen(slots=True, kw_only=True)
class GroupStatus:
    """State of one member of a group. `generation` is -1 before the member has joined, and after it has left."""

    group: str
    state: str
    """State of the membership: a name of `protocol.membership.states.State`; "closed" if `consume` does not run."""
    seconds: float = 0.0
    """Seconds in this state."""
    member_id: str = ""
    generation: int = -1
    assignor: str = ""
    is_leader: bool = False
    coordinator: int = -1
    """Node id of the coordinator."""
    coordinator_seconds: float = -1.0
    """Seconds since its last response to a join, a sync or a heartbeat; -1 before the first."""
    session_timeout: float = 0.0
    """`Config.session_timeout`: seconds without a heartbeat after which the group removes the member."""
    blocked_seconds: float = 0.0
    """Duration of the last blockage of the event loop that took a third of the session timeout or longer."""
    blocked_ago: float = -1.0
    """Seconds since the end of that blockage; -1 if there was none."""
    blocked_at: str = ""
    """Place of the call that blocked the loop: FILE:LINE in FUNCTION."""
    partitions: tuple[PartitionStatus, ...] = ()
    """Assigned partitions, sorted."""
    buffered_bytes: int = 0
    budget_bytes: int = 0
    """Limit of `buffered_bytes`: `Config.fetch_buffer_bytes`."""
