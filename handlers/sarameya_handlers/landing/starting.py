"""The start offset of a new owner of a partition, or the error that forbids a start. Pure.

The table decides; Kafka's commit is a witness. A difference between the two that members which died, hung, or woke up
late cannot explain stops the partition: continuing would lose records, or land them twice.
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
from sarameya_handlers.landing.links import UNKNOWN_BEGIN, UNKNOWN_EPOCH, ChainKey, Link, Note, Origin


@attrs.frozen(slots=True, kw_only=True)
class Log:
    """Offsets of the partition's log."""

    start: int
    end: int
    epoch_end: int | None = None
    """End offset of the leader epoch of the head's last record (KIP-320); None if unknown."""


RETENTION = "retention has removed them before they were read"
MOVED = "the group's commit was moved beyond them"


@attrs.frozen(slots=True)
class Gap:
    """Records `[from_offset, to_offset)` that are left out, and the reason that their gap link records."""

    from_offset: int
    to_offset: int
    reason: str


@attrs.frozen(slots=True)
class Begin:
    """Start of reading."""

    offset: int | None
    """None: the group's offset policy decides."""
    gap: Gap | None = None
    """Gap to be appended to the chain before any records are."""


def begin(
    key: ChainKey,
    origin: Origin,
    head: Link | None,
    committed: CommittedOffset | None,
    log: Log,
    *,
    may_leave_out: bool = False,
) -> Begin:
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
    note = Note.from_metadata(committed.metadata) if committed else None
    if note is not None and note.sink != key.sink:
        raise ForeignChainError(
            f"{key}: the group {origin.group!r} lands this topic as sink {note.sink!r} already: "
            "use that name, or another group"
        )
    if head is None:
        return _without_chain(key, committed, note)
    _check_origin(head, origin)
    if committed is not None and note is None:
        _check_begin(head, committed.offset)
    if committed is not None and note is None and committed.offset > head.to_offset:
        _check_moved(head, committed, log, may_leave_out)
        return _within_log(head, committed.offset, log, may_leave_out, reason=MOVED)
    return _within_log(head, _against_commit(head, committed, note), log, may_leave_out)


def _without_chain(key: ChainKey, committed: CommittedOffset | None, note: Note | None) -> Begin:
    if note is not None:
        raise RewoundTableError(
            f"{key}: the table has no link, but link {note.number} was landed: "
            "was it dropped or restored? Restore it, or reset the group's offsets to land everything anew"
        )
    return Begin(committed.offset if committed else None)


def check_lost_start(found: Sequence[Link], origin: Origin, offset: int) -> None:
    """Check links that another owner appended to a chain that this owner was about to start at `offset`.

    The owner may continue behind them only if a start behind them would have been allowed.

    Raises:
        ForeignChainError: They belong to another group, or to another topic.
        MovedCommitError: Records between `offset` and the links would never land.
    """
    first, newest = found[0], found[-1]
    _check_origin(newest, origin)
    _check_begin(attrs.evolve(newest, origin=attrs.evolve(newest.origin, begin=first.from_offset)), offset)
    if offset > newest.to_offset:
        raise MovedCommitError(
            f"{newest}: another member started the chain at {first.from_offset}, and this member was about to start "
            f"at {offset}: the records in between would never land. Was the group's offset reset while a member "
            f"landed? Reset it to the link's end, {newest.to_offset}"
        )


def _check_origin(head: Link, origin: Origin) -> None:
    if head.origin.group != origin.group:
        raise ForeignChainError(
            f"the table's chain {head.key} belongs to group {head.origin.group!r} ({head}), and this is group "
            f"{origin.group!r}: use that group, or another table. Only to have every record in this table once more, "
            "for this group, land as another sink (name)"
        )
    if not head.origin.is_of_another_topic(origin):
        return
    if not (head.origin.topic_id and origin.topic_id):
        raise ForeignChainError(
            f"{head} is of a topic {head.key.topic!r} of cluster {head.origin.cluster_id}, "
            f"this is cluster {origin.cluster_id}; land it as another sink, or in another table"
        )
    raise ForeignChainError(
        f"{head} is of a topic {head.key.topic!r} with the id {head.origin.topic_id}, "
        f"now it has {origin.topic_id}: the topic was made anew, or this is another cluster; "
        "land it as another sink, or in another table"
    )


def _check_begin(head: Link, offset: int) -> None:
    """Raise MovedCommitError if the group's offset lies before the chain's first link."""
    begin = head.origin.begin
    if begin != UNKNOWN_BEGIN and offset < begin:
        raise MovedCommitError(
            f"{head}: its chain begins at {begin}, and the group stands at {offset}: the records [{offset}, {begin}) "
            "would never land. Was the group's offset reset, before the chain began or since? To go on without them "
            f"reset it to the link's end, {head.to_offset}; to have them, land as another sink in another table"
        )


def _check_moved(head: Link, committed: CommittedOffset, log: Log, may_leave_out: bool) -> None:
    moved = f"{head}: the group's commit stands at {committed.offset}, beyond it, and no sink has put it there: "
    if not may_leave_out:
        raise MovedCommitError(
            f"{moved}what lies between would never land. Reset the group's offset to the link's end, or leave it out "
            "on purpose (on_missing = 'leave_out')"
        )
    if committed.offset > log.end:
        raise MovedCommitError(
            f"{moved}the log ends at {log.end}, and what is still to come would never land. Reset the group's offset "
            "to the link's end, or to the log's"
        )


def _against_commit(head: Link, committed: CommittedOffset | None, note: Note | None) -> int:
    """Return where to continue, according to the head and the group's commit."""
    if committed is None or note is None:
        return head.to_offset
    if note.number > head.number:
        raise RewoundTableError(
            f"{head} is the table's last, but link {note.number} was landed: was it restored to an older version? "
            "Restore the newer one, or rewind the group to match"
        )
    if note.number < head.number:
        return head.to_offset
    if note.attempt != head.attempt:
        raise RewoundTableError(
            f"{head} is by attempt {head.attempt}, but the group has committed that of {note.attempt}: "
            "the table was restored and landed in since, or it is another one"
        )
    if committed.offset < head.to_offset:
        raise MovedCommitError(
            f"{head}: the group's commit stands at {committed.offset}, before its end: records would land twice"
        )
    return committed.offset


def _within_log(head: Link, offset: int, log: Log, may_leave_out: bool, *, reason: str = "") -> Begin:
    """Return the start at `offset`, or at the log's start behind a gap.

    `reason` says why records between the head and `offset` do not land; it is empty if there are none.
    """
    ends = log.end if log.epoch_end is None or head.leader_epoch == UNKNOWN_EPOCH else min(log.end, log.epoch_end)
    if head.to_offset > ends:
        raise LostRecordsError(
            f"{head}: the log was cut at {ends}, below what has landed: "
            "the table holds records that the log does not have any more"
        )
    if log.start <= offset:
        return Begin(offset, Gap(head.to_offset, offset, reason) if reason else None)
    if not may_leave_out:
        raise LostRecordsError(
            f"{head}: the log begins at {log.start}: the records from {offset} on are gone before they landed. "
            "To go on without them, set on_missing = 'leave_out'"
        )
    reason = f"{reason}; from {offset} on, {RETENTION}" if reason else RETENTION
    return Begin(log.start, Gap(head.to_offset, log.start, reason))
