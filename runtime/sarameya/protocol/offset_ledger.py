"""Marked and committed offsets of each partition of a session. Pure.

A mark is the next offset to read, with the metadata and leader epoch of the commit. Marks move forward; resets move
them backward. A second mark at the same offset replaces the metadata, if it has any. Metadata is the handler's
statement about the messages before the mark. So nothing but the handler removes metadata, or moves it forward.

If a position is moved back, since the log no longer has it, marks of messages that were delivered before the move stop
at the new position. A partition is dirty until exactly the mark that was sent is acknowledged. It stays dirty if the
mark moves while the request is pending. It also stays dirty if the mark returns to the committed offset after a request
without a response, since the coordinator may have stored the offset of that request.

Each partition has a `MarkCell`, so that marking messages one by one costs a comparison and two stores each. The ledger
opens the cell after a call of `mark`. It closes the cell, and takes over its mark, before it reads or changes the
partition. While a cell is closed, every mark is a call of `mark`, which has all rules. So a partition has one slow mark
after each commit, status or reset, and the rules are in one place.

Messages of a tracked partition (`track`) finish in any order, and are marked one by one. Its mark is what its
completion tracker says, taken over whenever the ledger reads or changes the partition.

Rules that are easily broken:

- If a position moves forward, everything before it is marked as processed, since the log has deleted it. If a position
  moves back, marks of messages delivered earlier stop at the new position. Tests:
  `tests/protocol/test_offset_ledger.py::test_reset_moves_the_mark_without_skipping_messages`,
  `tests/protocol/test_offset_ledger.py::test_marks_of_earlier_messages_stop_at_the_new_position`.
- A commit without a response may have been stored. Test:
  `tests/protocol/test_offset_ledger.py::test_reset_below_an_unanswered_commit_is_dirty`.
- No reset moves a commit beyond a mark with metadata. A mark at the same offset replaces only the metadata. Tests:
  `tests/protocol/test_offset_ledger.py::test_forward_reset_keeps_a_mark_with_metadata`,
  `tests/protocol/test_offset_ledger.py::test_mark_at_the_same_offset_replaces_only_metadata`.
- Metadata of a completion tracker is no statement of the handler: resets and new topics ignore it. Test:
  `tests/protocol/test_offset_ledger.py::test_completion_does_not_hold_a_reset_back`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import attrs

from sarameya.model import NO_LEADER_EPOCH, CommittedOffset, TopicPartition
from sarameya.protocol.completion_tracker import CompletionTracker, is_completion

PositionSince: TypeAlias = Callable[[], int | None]
"""Returns the position after the last message delivered since a position was moved; None before the first message."""

CallSoon: TypeAlias = Callable[..., bool]
"""Passes a call, function and arguments, to the event loop if the caller is another thread. Returns whether it did."""

_LEAST_METADATA = 256
"""Lowest limit of a tracker's metadata. Brokers that accept less get commits without any, not fewer messages."""

_CLOSED = 2**63
"""`MarkCell.next_offset` of a closed cell: greater than any offset."""


@attrs.define(slots=True, eq=False)
class MarkCell:
    """Latest mark of a partition that the ledger has not taken over yet.

    To mark a message: if its offset is at least `next_offset`, store its leader epoch, then its offset + 1. Otherwise
    call `OffsetLedger.mark`. Another thread may do the same: CPython switches threads at calls and backward jumps only,
    and there is none between the comparison and the two stores, nor where the ledger closes the cell
    (`tests/protocol/test_offset_ledger.py::test_mark_of_another_thread_survives_closing_the_cell`).

    Attributes:
        topic: Name of the topic.
        partition: Number of the partition.
        next_offset: The offset after the marked message; greater than any offset while the cell is closed.
        leader_epoch: Leader epoch of the marked message.
    """

    topic: str
    partition: int
    next_offset: int = _CLOSED
    leader_epoch: int = NO_LEADER_EPOCH


@attrs.frozen(slots=True)
class _MovedBack:
    """Move of the position back to `start`.

    Messages from `start` to `end` may have been delivered before the move. The log has other records there now.
    """

    start: int
    end: int
    position_since: PositionSince

    @property
    def is_over(self) -> bool:
        """True once marks can no longer refer to messages from before the move."""
        position = self.position_since()
        return position is not None and position >= self.end

    def bounded(self, offset: CommittedOffset) -> CommittedOffset:
        """Return the offset or, if it is beyond the messages delivered since the move, `start`.

        In that case the marked message is from before the move. Only the messages before `start` are surely done.
        """
        position = self.position_since()
        is_known = offset.offset <= (self.start if position is None else position)
        return offset if is_known else CommittedOffset(self.start, offset.metadata)


@attrs.define(slots=True)
class _Entry:
    cell: MarkCell
    marked: CommittedOffset | None = None
    committed: CommittedOffset | None = None
    sent: CommittedOffset | None = None
    """Offset of a commit without a response. The coordinator may have stored it, or may still do so."""
    moved_back: _MovedBack | None = None
    is_noted: bool = False
    """True if the handler keeps its progress in commit metadata, even if no mark has any yet."""
    is_void: bool = False
    """True if the topic was replaced by another: no mark is accepted."""

    tracker: CompletionTracker | None = None
    """Set if messages are marked one by one, in any order."""
    call_soon: CallSoon | None = None
    """Set with the tracker, which must not be used in two threads."""
    has_finished: bool = False
    """True if the tracker's commit has changed since it was taken over."""

    @property
    def _mark_offset(self) -> int:
        """Offset of the mark; 0 without one."""
        return 0 if self.marked is None else self.marked.offset

    @property
    def has_statement(self) -> bool:
        """True if the mark has metadata of the handler, or will have some."""
        metadata = "" if self.marked is None else self.marked.metadata
        return self.is_noted or (metadata != "" and not is_completion(metadata))

    def open(self) -> None:
        """Open the cell for the next marks, unless they need a rule."""
        if self.moved_back is None and self.tracker is None and not self.is_void:
            self.cell.next_offset = self._mark_offset

    def close(self) -> None:
        """Take over the mark of the cell, and close it: the next mark must call `OffsetLedger.mark`."""
        cell = self.cell
        # In this order, and without a call: the mark of another thread is taken over, or finds the cell closed.
        next_offset, leader_epoch = cell.next_offset, cell.leader_epoch
        cell.next_offset = _CLOSED
        if next_offset != _CLOSED and next_offset > self._mark_offset:
            self.marked = CommittedOffset(next_offset, "", leader_epoch)
        if self.has_finished and self.tracker is not None:
            self.has_finished = False
            self.advance(self.tracker.commit())

    def advance(self, offset: CommittedOffset) -> bool:
        """Move the mark forward to `offset`, or replace its metadata. Return False if nothing changes."""
        if self.is_void:
            return False
        if self.moved_back is not None:
            if self.moved_back.is_over:
                self.moved_back = None
            else:
                offset = self.moved_back.bounded(offset)
        if (marked := self.marked) is not None and offset.offset <= marked.offset:
            if offset.offset < marked.offset or offset.metadata in ("", marked.metadata):
                return False
            if offset.leader_epoch == NO_LEADER_EPOCH:  # the message before the mark is the same
                offset = attrs.evolve(offset, leader_epoch=marked.leader_epoch)
        self.marked = offset
        return True


class OffsetLedger:
    """Marks and commits of the owned partitions. Methods raise KeyError for a partition that is not owned."""

    def __init__(self, committed: Mapping[TopicPartition, CommittedOffset | None] | None = None) -> None:
        self._entries: dict[TopicPartition, _Entry] = {}
        self._on_mark: Callable[[], None] | None = None
        self.add(committed or {})

    def add(self, committed: Mapping[TopicPartition, CommittedOffset | None]) -> None:
        """Add partitions with their committed offsets. Uncommitted marks of partitions owned already are kept."""
        dirty = self.dirty()
        for partition, offset in committed.items():
            if partition in dirty and not self._entries[partition].is_void:
                entry = self._entries[partition]
                entry.committed, entry.moved_back, entry.tracker = offset, None, None
            else:
                self._entries[partition] = _Entry(MarkCell(*partition), offset, offset)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions; their uncommitted marks will not be committed."""
        for partition in partitions:
            if (entry := self._entries.pop(partition, None)) is not None:
                entry.close()

    def owns(self, partition: TopicPartition) -> bool:
        """Return whether marks of this partition are accepted. Any thread may call it."""
        return partition in self._entries

    def cell(self, partition: TopicPartition) -> MarkCell:
        """Return the partition's cell; a closed cell if the partition is not owned."""
        entry = self._entries.get(partition)
        return MarkCell(*partition) if entry is None else entry.cell

    def mark(self, partition: TopicPartition, offset: CommittedOffset) -> bool:
        """Move the mark forward to `offset`, or replace its metadata.

        Returns:
            False, without a change, if `offset` is before the mark or adds nothing to it.
        """
        entry = self._entry(partition)
        if (tracker := entry.tracker) is not None:
            if offset.metadata:
                raise ValueError(f"{partition} is read by `concurrently`, which has metadata of its own in the commit")
            if entry.call_soon is not None and entry.call_soon(self._mark_late, partition, offset):
                return True
            tracker.finish_before(offset.offset)
            entry.has_finished = True
            entry.close()
        has_moved = entry.advance(offset)
        if has_moved:
            self._notify()
        if self._on_mark is None:  # else the next mark must come here
            entry.open()
        return has_moved

    def _mark_late(self, partition: TopicPartition, offset: CommittedOffset) -> None:
        if partition in self._entries:  # otherwise its next owner handles the messages again
            self.mark(partition, offset)

    def track(
        self,
        partition: TopicPartition,
        topic_id: str,
        position: int,
        on_gone: Callable[[int], None],
        call_soon: CallSoon | None = None,
    ) -> CompletionTracker:
        """Let messages of this partition be marked one by one, in any order (`finish`), until it is dropped.

        Args:
            partition: The partition.
            topic_id: Id of its topic, as 32 hex digits; empty if unknown.
            position: Offset of the next message.
            on_gone: Called with the offset of each message that is not in flight any more.
            call_soon: Used for marks of other threads; None if there are none.

        Returns:
            The tracker, which knows the messages that an earlier owner has finished. The caller hands out messages.
        """
        entry = self._entry(partition)
        marked = entry.marked
        start = marked if marked is not None and marked.offset == position else CommittedOffset(position)
        entry.tracker, entry.call_soon = CompletionTracker(start, topic_id, on_gone=on_gone), call_soon
        return entry.tracker

    def finish(self, partition: TopicPartition, offset: int, leader_epoch: int) -> bool:
        """Mark one message of a tracked partition. Return False, without a change, if it is not tracked."""
        entry = self._entries.get(partition)
        if entry is None or entry.tracker is None:
            return False
        if entry.call_soon is not None and entry.call_soon(self.finish, partition, offset, leader_epoch):
            return True
        entry.tracker.finish(offset, leader_epoch)
        if not entry.has_finished:
            entry.has_finished = True
            self._notify()
        return True

    def in_flight(self, partition: TopicPartition) -> int:
        """Return the number of messages of a tracked partition that are not marked; 0 for any other partition."""
        entry = self._entries.get(partition)
        return 0 if entry is None or entry.tracker is None else entry.tracker.in_flight

    def has_room(self, partition: TopicPartition) -> bool:
        """Return False if a tracked partition accepts no more messages, since the commit's metadata has no room."""
        entry = self._entries.get(partition)
        return entry is None or entry.tracker is None or entry.tracker.has_room

    def note(self, partition: TopicPartition) -> None:
        """Record that the handler keeps its progress in commit metadata: its marks will have some."""
        self._entries[partition].is_noted = True

    def reset(self, partition: TopicPartition, offset: CommittedOffset) -> bool:
        """Move the mark back to `offset`. Return False, without a change, if it is not before the mark."""
        entry = self._entry(partition)
        if entry.is_void or entry.marked is None or offset.offset >= entry.marked.offset:
            return False
        self._set(entry, offset)
        return True

    def topic_recreated(self, partition: TopicPartition) -> None:
        """Void all partitions of this partition's topic: it was deleted, and another topic has its name.

        No mark of these partitions, past or future, is committed before they are owned again. Their mark becomes offset
        0 of the new topic, so that the next owner reads all of it, whatever the offset policy is. Marks with metadata
        are only removed: their handler decides where to start.
        """
        entry = self._entries.get(partition)
        if entry is None or entry.is_void:
            return
        for other, entry in self._entries.items():
            if other.topic == partition.topic:
                entry.close()
                entry.is_void, entry.sent = True, None
                entry.marked, entry.committed = (None if entry.has_statement else CommittedOffset(0)), None
        self._notify()

    @property
    def recreated(self) -> frozenset[TopicPartition]:
        """Partitions of topics that were deleted and created again."""
        return frozenset(partition for partition, entry in self._entries.items() if entry.is_void)

    def position_moved(
        self, partition: TopicPartition, before: int, after: int, *, is_first: bool, position_since: PositionSince
    ) -> bool:
        """Record that the log no longer has the offset `before`, and that reading continues at `after`.

        Forward: the records in between are deleted and count as processed. A mark with metadata stays, since only its
        writer may change that (a sink, which compares it with its table). The next owner then meets the same gap.

        Back: a mark beyond `after` moves to `after`. Later marks of messages from before the move do not move it beyond
        `after`; `position_since` tells them apart. The metadata stays valid for the messages before `after`.

        Args:
            partition: The partition.
            before: The offset that the log does not have.
            after: The new position.
            is_first: True if nothing was read before: reading starts at `after`.
            position_since: Returns the position of the messages delivered since the move.

        Returns:
            True if the mark has moved.
        """
        entry = self._entry(partition)
        marked, moved = entry.marked, entry.moved_back
        end = before if moved is None else max(before, moved.end)
        entry.moved_back = _MovedBack(after, end, position_since) if after < end else None
        if after > before:
            moves = (marked is None or marked.offset < after) and not entry.has_statement
        elif marked is not None:
            moves = marked.offset > after
        else:
            moves = is_first and not entry.is_noted
        if moves:
            metadata = marked.metadata if marked is not None and entry.has_statement else ""
            self._set(entry, CommittedOffset(after, metadata))
        return moves

    def _entry(self, partition: TopicPartition) -> _Entry:
        """Return the entry of a partition, with its cell closed."""
        entry = self._entries[partition]
        entry.close()
        return entry

    def _set(self, entry: _Entry, offset: CommittedOffset) -> None:
        entry.marked = offset
        self._notify()

    def notify_next_mark(self, on_mark: Callable[[], None] | None) -> None:
        """Call `on_mark` once, when any mark moves. None cancels that."""
        self._on_mark = on_mark
        self._close_all()

    def _close_all(self) -> None:
        for entry in self._entries.values():
            entry.close()

    def _notify(self) -> None:
        on_mark = self._on_mark
        if on_mark is not None:
            self._on_mark = None
            on_mark()

    def dirty(self) -> dict[TopicPartition, CommittedOffset]:
        """Return the marks that are not committed, or may not be."""
        self._close_all()
        return {
            tp: entry.marked
            for tp, entry in self._entries.items()
            if entry.marked is not None and (entry.marked != entry.committed or entry.sent is not None)
        }

    def send(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Record that `offsets` are being sent. Until the response, the coordinator may have stored them or not."""
        for partition, offset in offsets.items():
            if (entry := self._entries.get(partition)) is not None:
                entry.sent = offset

    def acknowledge(self, sent: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Record that the coordinator has stored `sent`. Partitions dropped since are ignored, even if owned again."""
        for partition, offset in sent.items():
            if (entry := self._entries.get(partition)) is not None and entry.sent == offset:
                entry.committed, entry.sent = offset, None

    def metadata_refused(self, partition: TopicPartition, sent: CommittedOffset) -> bool:
        """Record that the coordinator accepts no metadata as long as that of `sent`.

        The offset is committed without metadata, and the tracker's next metadata is shorter.

        Returns:
            False, without a change, if the handler wrote the metadata.
        """
        entry = self._entries.get(partition)
        if entry is None or not is_completion(sent.metadata):
            return False
        if entry.tracker is not None:
            entry.tracker.limit_metadata(max(len(sent.metadata) // 2, _LEAST_METADATA))
        if entry.marked == sent:
            entry.marked = attrs.evolve(sent, metadata="")
        return True

    def known(self, partition: TopicPartition) -> tuple[int, int]:
        """Return the marked and the committed offset, -1 for none; also for a partition that is not owned."""
        if partition not in self._entries:
            return -1, -1
        entry = self._entry(partition)
        marked, committed = (-1 if at is None else at.offset for at in (entry.marked, entry.committed))
        return marked, committed

    def marked(self, partition: TopicPartition) -> CommittedOffset | None:
        """Return the current mark, committed or not."""
        return self._entry(partition).marked

    def committed(self, partition: TopicPartition) -> CommittedOffset | None:
        """Return the group's committed offset, as far as this session knows."""
        return self._entries[partition].committed
