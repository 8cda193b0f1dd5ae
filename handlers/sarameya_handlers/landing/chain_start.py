"""The start offset of a new owner of a partition, or the error that forbids a start. Pure.

The table decides where to start, and the group's commit must agree with it. Members that died, hung, or woke up late
explain some differences between the two. Any other difference stops the partition: to continue would lose records, or
land them twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from sarameya import CommittedOffset
from sarameya_handlers.landing.errors import (
    ForeignChainError,
    LostRecordsError,
    MovedCommitError,
    RewoundTableError,
)
from sarameya_handlers.landing.links import UNKNOWN_BEGIN, UNKNOWN_EPOCH, ChainKey, CommitNote, Link, Origin


@attrs.frozen(slots=True, kw_only=True)
class Log:
    """Offsets of the partition's log."""

    start: int
    end: int
    epoch_end: int | None = None
    """End offset of the leader epoch of the head's last record (KIP-320); None if unknown."""


RETENTION = "retention has removed them before they were read"
MOVED = "the group's commit was moved beyond them"

_NEW_TABLE = "Use a new table, or set `name` under [handler.options]."


@attrs.frozen(slots=True)
class Gap:
    """Records `[from_offset, to_offset)` that are left out, and the reason that their gap link records."""

    from_offset: int
    to_offset: int
    reason: str


@attrs.frozen(slots=True)
class ChainStart:
    """Start of reading for the next link of a chain."""

    offset: int | None
    """None: the group's offset policy decides."""
    gap: Gap | None = None
    """Gap to be appended to the chain before any records are."""


def choose_chain_start(
    key: ChainKey,
    origin: Origin,
    head: Link | None,
    committed: CommittedOffset | None,
    log: Log,
    *,
    may_leave_out: bool = False,
) -> ChainStart:
    """Return where to start reading a partition.

    Args:
        key: Identity of the chain.
        origin: Origin that a chain of this member has.
        head: Last link of the chain in the table, if any.
        committed: Committed offset of the group, if any.
        log: Offsets of the partition's log.
        may_leave_out: Records that retention has removed, or that the group's commit was moved beyond, become a gap.
            Otherwise they are an error.

    Raises:
        ChainError: A start would lose or repeat records. The subclass and the text say why, and what to do.
    """
    note = CommitNote.from_metadata(committed.metadata) if committed else None
    if note is not None and note.sink != key.sink:
        raise ForeignChainError(
            f"{key}: the group {origin.group!r} already lands this topic with the name {note.sink!r}. "
            "Set this `name` under [handler.options], or use another group."
        )
    if head is None:
        return _without_chain(key, committed, note)
    _check_origin(head, origin)
    if committed is not None and note is None:  # not a sink's commit: the offset was reset
        _check_begin(head, committed.offset)
        if committed.offset > head.to_offset:
            _check_moved(head, committed, log, may_leave_out)
            return _within_log(head, committed.offset, log, may_leave_out, reason=MOVED)
    return _within_log(head, _against_commit(head, committed, note), log, may_leave_out)


def _without_chain(key: ChainKey, committed: CommittedOffset | None, note: CommitNote | None) -> ChainStart:
    if note is not None:
        raise RewoundTableError(
            f"{key}: the table has no link, but the group has committed link {note.number}. Was the table dropped or "
            "restored? Restore it, or reset the group's offsets to land everything again."
        )
    return ChainStart(committed.offset if committed else None)


def check_chain_of_another_owner(found: Sequence[Link], origin: Origin, offset: int) -> None:
    """Check links that another owner appended to a chain that this owner was about to start at `offset`.

    The owner may continue after them only if a start after them would have been allowed.

    Raises:
        ForeignChainError: They belong to another group, or to another topic.
        MovedCommitError: Records between `offset` and the links would never land.
    """
    first, newest = found[0], found[-1]
    _check_origin(newest, origin)
    # The first link that was found defines where the chain starts.
    _check_begin(attrs.evolve(newest, origin=attrs.evolve(newest.origin, begin=first.from_offset)), offset)
    if offset > newest.to_offset:
        raise MovedCommitError(
            f"{newest}: another member started the chain at {first.from_offset}, and this member was about to start "
            f"at {offset}: the records in between would never land. Was the group's offset reset while a member "
            f"landed? Reset it to the link's end, {newest.to_offset}."
        )


def _check_origin(head: Link, origin: Origin) -> None:
    if head.origin.group != origin.group:
        raise ForeignChainError(
            f"the table's chain {head.key} belongs to group {head.origin.group!r} ({head}), and this is group "
            f"{origin.group!r}: use that group, or another table. Another `name` under [handler.options] lands "
            "every record a second time."
        )
    if not head.origin.is_of_another_topic(origin):
        return
    if not (head.origin.topic_id and origin.topic_id):
        raise ForeignChainError(
            f"{head} has records of topic {head.key.topic!r} of cluster {head.origin.cluster_id}, and this is cluster "
            f"{origin.cluster_id}. {_NEW_TABLE}"
        )
    raise ForeignChainError(
        f"{head} has records of topic {head.key.topic!r} with the id {head.origin.topic_id}, and its id is now "
        f"{origin.topic_id}: the topic was recreated, or this is another cluster. {_NEW_TABLE}"
    )


def _check_begin(head: Link, offset: int) -> None:
    """Raise MovedCommitError if the group's offset lies before the chain's first link."""
    begin = head.origin.begin
    if begin != UNKNOWN_BEGIN and offset < begin:
        raise MovedCommitError(
            f"{head}: its chain starts at {begin}, and the group's committed offset is {offset}: the records "
            f"[{offset}, {begin}) would never land. Was the group's offset reset? To continue without them, reset it "
            f"to the link's end, {head.to_offset}. To land them, use a new table and set another `name`."
        )


def _check_moved(head: Link, committed: CommittedOffset, log: Log, may_leave_out: bool) -> None:
    moved = (
        f"{head}: the group's committed offset is {committed.offset}, beyond the link's end, "
        "and no sink has committed it: "
    )
    if not may_leave_out:
        raise MovedCommitError(
            f"{moved}the records in between would never land. Reset the group's offset to the link's end, or leave "
            "them out on purpose (on_missing = 'leave_out')."
        )
    if committed.offset > log.end:
        raise MovedCommitError(
            f"{moved}the log ends at {log.end}, and the next records would never land. Reset the group's offset to "
            "the link's end, or to the log end."
        )


def _against_commit(head: Link, committed: CommittedOffset | None, note: CommitNote | None) -> int:
    """Return where to continue, according to the head and the group's commit."""
    if committed is None or note is None:
        return head.to_offset
    if note.number > head.number:
        raise RewoundTableError(
            f"{head} is the table's last, but the group has committed link {note.number}. Was the table restored to "
            "an older version? Restore the newer one, or rewind the group to match (`sarameya rewind`)."
        )
    if note.number < head.number:
        return head.to_offset
    if note.attempt != head.attempt:
        raise RewoundTableError(
            f"{head} is by attempt {head.attempt}, but the group has committed attempt {note.attempt}: "
            "the table was restored and records have landed since, or it is another table. Rewind the group to this "
            "table (`sarameya rewind TABLE --to-head --execute`), or use the other one."
        )
    if committed.offset < head.to_offset:
        raise MovedCommitError(
            f"{head}: the group's committed offset is {committed.offset}, before the link's end: records would land "
            f"twice. Reset it to the link's end, {head.to_offset}."
        )
    return committed.offset


def _within_log(head: Link, offset: int, log: Log, may_leave_out: bool, *, reason: str = "") -> ChainStart:
    """Return the start at `offset`, or at the log's start after a gap.

    `reason` says why records between the head and `offset` do not land; it is empty if there are none.
    """
    known_end = log.end if log.epoch_end is None or head.leader_epoch == UNKNOWN_EPOCH else min(log.end, log.epoch_end)
    if head.to_offset > known_end:
        raise LostRecordsError(
            f"{head}: the log was truncated at {known_end}, below the landed records: "
            "the table has records that the log has lost. Keep the table, and land what follows with another group "
            "in a new one."
        )
    if log.start <= offset:
        return ChainStart(offset, Gap(head.to_offset, offset, reason) if reason else None)
    if not may_leave_out:
        raise LostRecordsError(
            f"{head}: the log starts at {log.start}: the records from {offset} on were deleted before they landed. "
            "To continue without them, set on_missing = 'leave_out'."
        )
    reason = f"{reason}; from {offset} on, {RETENTION}" if reason else RETENTION
    return ChainStart(log.start, Gap(head.to_offset, log.start, reason))
