"""Where a new owner of a partition begins, or why it must not. Pure.

The table rules; Kafka's commit is a witness. What they say is held against each other, and what cannot be explained by
members that died, hung or woke stops the partition: going on would lose records, or land them twice.
"""

from __future__ import annotations

import attrs

from sarameya import CommittedOffset
from sarameya_handlers.landing.errors import (
    ForeignChainError,
    LostRecordsError,
    MovedCommitError,
    RewoundTableError,
)
from sarameya_handlers.landing.links import UNKNOWN_EPOCH, ChainKey, Link, Note, Origin


@attrs.frozen(slots=True, kw_only=True)
class Log:
    """What the partition's log says of itself."""

    start: int
    end: int
    epoch_end: int | None = None
    """Where the leader epoch of the head's last record ends in it (KIP-320); None if that was not to be found out."""


RETENTION = "retention has removed them before they were read"
MOVED = "the group's commit was moved beyond them"


@attrs.frozen(slots=True)
class Gap:
    """Records `[from_offset, to_offset)` that do not land, for the `reason` that their gap link names."""

    from_offset: int
    to_offset: int
    reason: str


@attrs.frozen(slots=True)
class Begin:
    """Read from `offset`; None means where the group's policy says. `gap` has to be in the chain first."""

    offset: int | None
    gap: Gap | None = None


def begin(
    key: ChainKey,
    origin: Origin,
    head: Link | None,
    committed: CommittedOffset | None,
    log: Log,
    *,
    may_leave_out: bool = False,
) -> Begin:
    """Where to read from, of a partition whose chain ends with `head` and whose group has `committed`.

    Raises ChainError, whose subclass and text say what is wrong. `may_leave_out`: records that have not landed, and
    that retention has removed or the group's commit was moved beyond, become a gap, rather than an error.
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


def _check_origin(head: Link, origin: Origin) -> None:
    if not head.origin.is_other(origin):
        return
    if head.origin.group != origin.group:
        raise ForeignChainError(
            f"{head} was landed by group {head.origin.group!r}, this is {origin.group!r}: "
            "land as another sink, or with that group"
        )
    raise ForeignChainError(
        f"{head} is of a topic {head.key.topic!r} with the id {head.origin.topic_id}, "
        f"now it has {origin.topic_id}: the topic was made anew, or this is another cluster; "
        "land it as another sink, or in another table"
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
    """Where reading goes on, by the head and what the group has committed."""
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
    """`reason`: why what lies before `offset` does not land; empty where there is nothing that could."""
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
