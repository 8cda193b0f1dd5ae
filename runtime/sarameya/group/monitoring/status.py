"""The status of one partition, computed from its claim, its feed and its marks."""

from __future__ import annotations

from sarameya.consumer.fetcher import FeedState
from sarameya.group.claim import Claim
from sarameya.group.delivery.report import Doing
from sarameya.group.offsets.offset_manager import OffsetManager
from sarameya.model import TopicPartition
from sarameya.status import Activity, OverdueHandler, PartitionStatus

_INDEPENDENT_OF_HANDLER = (Activity.FETCHING, Activity.RETRYING, Activity.RESETTING)
"""Activities that a handler does not delay, however long it holds records."""

_MOST_KEY = 40
"""Bytes of a key that are shown."""


def partition_status(
    claim: Claim,
    feed: FeedState,
    offsets: OffsetManager,
    now: float,
    *,
    wall_clock: float,
    overdue: OverdueHandler | None,
) -> PartitionStatus:
    """Return the status of a partition that is being read.

    Args:
        claim: The partition's claim.
        feed: The state of its fetches.
        offsets: Marked and committed offsets.
        now: Present time on trio's clock.
        wall_clock: Present time in seconds since 1970, to compare with timestamps of records.
        overdue: Records that the reading task has held for too long. They may be of another partition of its stream.
    """
    doing = _doing(claim, feed, offsets)
    why = doing.reason or ("" if overdue is None or doing.activity in _INDEPENDENT_OF_HANDLER else str(overdue))
    oldest = claim.oldest_in_flight
    consumer = claim._consumer
    marked, committed = offsets.ledger.known(claim.topic_partition)
    uncommitted_since = offsets.uncommitted_since(claim.topic_partition)
    return PartitionStatus(
        partition=claim.topic_partition,
        activity=doing.activity,
        seconds=now - doing.since,
        reason="; ".join(part for part in (why, _in_flight_text(claim, offsets)) if part),
        attempt=doing.attempt,
        attempts=doing.attempts,
        position=claim.position,
        high_water_mark=claim.high_water_mark,
        lag=claim.lag,
        marked=marked,
        committed=committed,
        uncommitted_seconds=0.0 if uncommitted_since is None else now - uncommitted_since,
        landed=claim.report.landed,
        committed_lag=claim.lag_of(committed),
        landed_lag=claim.lag_of(claim.report.landed),
        unlanded_seconds=_unlanded_seconds(claim, committed, wall_clock),
        broker=feed.broker,
        asked_seconds=-1.0 if feed.answered_at is None else now - feed.answered_at,
        buffered_bytes=consumer.share.held,
        held_bytes=consumer.share.kept,
        records_total=claim.records_total,
        bytes_total=claim.bytes_total,
        handler_seconds=claim.handler_seconds_until(now),
        backpressured_seconds=consumer.backpressured_for(now),
        backpressure_seconds=consumer.backpressure_seconds_until(now),
        overdue=overdue if overdue is not None and overdue.partition == claim.topic_partition else None,
        in_flight=offsets.ledger.in_flight(claim.topic_partition),
        retrying=claim.report.count(Activity.RETRYING) if oldest is not None else 0,
        oldest_offset=-1 if oldest is None else oldest.offset,
        oldest_seconds=0.0 if oldest is None else now - oldest.since,
        oldest_key="" if oldest is None else _key_text(oldest.key),
    )


def _unlanded_seconds(claim: Claim, committed: int, wall_clock: float) -> float:
    """Return the age of the oldest record that was read and is not done.

    A record is done once it has landed or, if the handler lands nothing, once it is committed.

    Returns:
        Seconds; 0 if there is no such record, and no lag; -1 if the age is unknown.
    """
    landed = claim.report.landed
    oldest = claim.timestamps.oldest(committed if landed < 0 else landed)
    if oldest is None:
        return 0.0 if claim.lag == 0 else -1.0  # records that were not read yet may have any age
    return max(wall_clock - oldest / 1000, 0.0) if oldest >= 0 else -1.0


def owned_status(partition: TopicPartition, offsets: OffsetManager, over_for: float | None) -> PartitionStatus:
    """Return the status of an owned partition that is not read.

    Args:
        partition: The partition.
        offsets: Marked and committed offsets.
        over_for: Seconds since its claim stopped; None if its claim has not started yet.
    """
    marked, committed = offsets.ledger.known(partition)
    return PartitionStatus(
        partition=partition,
        activity=Activity.STARTING if over_for is None else Activity.REVOKING,
        seconds=over_for or 0.0,
        marked=marked,
        committed=committed,
    )


def _doing(claim: Claim, feed: FeedState, offsets: OffsetManager) -> Doing:
    """Return the partition's activity. If several apply, the first in this order counts."""
    consumer, reported = claim._consumer, claim.report.doing_now
    # The handler's reported activity, as the reason for the delay.
    why = "" if reported is None else f"{reported.activity} {reported.reason}".rstrip()
    if claim.has_ended:
        return Doing(Activity.REVOKING, consumer.stopped_at, why, 0)
    if consumer.is_paused:
        return Doing(Activity.PAUSED, consumer.stopped_at, "", 0)
    if consumer.is_backpressured:
        return Doing(Activity.BACKPRESSURED, consumer.stopped_at, why, 0)
    if reported is not None:
        return reported
    if (since := offsets.committing_since(claim.topic_partition)) is not None:
        return Doing(Activity.COMMITTING, since, "", 0)
    if claim.taken_at is not None:
        return Doing(Activity.IN_HANDLER, claim.taken_at, "", 0)
    if feed.activity is Activity.FETCHING and not consumer.share.has_room:
        return Doing(Activity.NO_ROOM, claim.waits_since, "", 0)
    since = max(feed.since, claim.waits_since)
    attempt = feed.attempt if feed.activity is Activity.RETRYING else 0
    # Only failed fetches (`source.attempts`) have a limit. After early, empty responses the fetches only slow down.
    attempts = claim._config.retry_max_attempts or 0 if attempt and consumer.source.attempts is not None else 0
    return Doing(feed.activity, since, feed.reason, attempt, attempts)


def _in_flight_text(claim: Claim, offsets: OffsetManager) -> str:
    """Return a text about the messages in flight: `12 in flight, the first is offset 17 with key "ann"`.

    It says, too, if no more messages are read before some of them are finished.
    """
    oldest = claim.oldest_in_flight
    if oldest is None:
        return ""
    key = "" if oldest.key is None else f' with key "{_key_text(oldest.key)}"'
    text = f"{offsets.ledger.in_flight(claim.topic_partition)} in flight, the first is offset {oldest.offset}{key}"
    if not offsets.ledger.has_room(claim.topic_partition):
        text += "; reading waits for it, since the metadata of a commit has no room for more unfinished messages"
    elif claim.is_at_limit:
        text += "; no more messages are read before some of these are finished"
    return text


def _key_text(key: bytes | None) -> str:
    """Return the start of a key as text, on one line."""
    text = "" if key is None else key[:_MOST_KEY].decode(errors="replace")
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
