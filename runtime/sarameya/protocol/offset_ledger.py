"""What has been marked and what has been committed, for each partition of a session. Pure.

A mark is the next offset to read, with the metadata and leader epoch that go into the commit. Marks move forward,
resets backward; a mark where the mark is already replaces its metadata, if it has any. Metadata is its handler's word
on what stands before the mark: no other takes it off, or puts it further ahead.

Where a position was moved back, since its log no longer has it, marks for what was read before go no further than
there. A partition is dirty until the very mark that was sent is acknowledged: one that moved while the request was
under way stays dirty, and so does one that went back to what was committed before a request whose answer was lost,
since the coordinator may have taken it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import attrs

from sarameya.model import NO_LEADER_EPOCH, CommittedOffset, TopicPartition

Reach: TypeAlias = Callable[[], int | None]
"""How far messages have been handed out since a position was moved: None before any of them were."""


@attrs.frozen(slots=True)
class _MovedBack:
    """The offsets from `start` to `end` were handed out, or may have been, before the position was moved to `start`;
    what stands there now is something else."""

    start: int
    end: int
    reach: Reach

    @property
    def is_over(self) -> bool:
        """Whether marks can no longer mean what was there before."""
        reached = self.reach()
        return reached is not None and reached >= self.end

    def bounded(self, offset: CommittedOffset) -> CommittedOffset:
        """The same, or where the position was moved to, if what is marked has not been handed out since: then it is
        something of before, with all that stands before `start`."""
        reached = self.reach()
        is_known = offset.offset <= (self.start if reached is None else reached)
        return offset if is_known else CommittedOffset(self.start, offset.metadata)


@attrs.define(slots=True)
class _Entry:
    marked: CommittedOffset | None = None
    committed: CommittedOffset | None = None
    sent: CommittedOffset | None = None
    """What the coordinator may have taken, or may take yet, instead of `committed`."""
    moved_back: _MovedBack | None = None
    is_noted: bool = False
    """The handler says in metadata of its own how far it has come, also where no mark has any yet."""
    is_void: bool = False
    """The topic is another one now: no mark is taken."""


class OffsetLedger:
    """Marks and commits of the partitions that are owned. Raises KeyError for one that is not."""

    def __init__(self, committed: Mapping[TopicPartition, CommittedOffset | None] | None = None) -> None:
        self._entries: dict[TopicPartition, _Entry] = {}
        self._on_mark: Callable[[], None] | None = None
        self.add(committed or {})

    def add(self, committed: Mapping[TopicPartition, CommittedOffset | None]) -> None:
        """Partitions are owned from now on, with what the group has committed for each; where one is owned already, a
        mark that is still to be committed stands."""
        dirty = self.dirty()
        for partition, offset in committed.items():
            if partition in dirty and not self._entries[partition].is_void:
                entry = self._entries[partition]
                entry.committed, entry.moved_back = offset, None
            else:
                self._entries[partition] = _Entry(offset, offset)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions are not owned any more; what is still dirty of them will not be committed."""
        for partition in partitions:
            self._entries.pop(partition, None)

    def mark(self, partition: TopicPartition, offset: CommittedOffset) -> bool:
        """Move the mark forward to `offset`, or give it other metadata where it is; False, and nothing done, if it lies
        before the mark, or says nothing new."""
        entry = self._entries[partition]
        if entry.is_void:
            return False
        if entry.moved_back is not None:
            if entry.moved_back.is_over:
                entry.moved_back = None
            else:
                offset = entry.moved_back.bounded(offset)
        if (marked := entry.marked) is not None and offset.offset <= marked.offset:
            if offset.offset < marked.offset or offset.metadata in ("", marked.metadata):
                return False
            if offset.leader_epoch == NO_LEADER_EPOCH:  # what stands before it is the same as it was
                offset = attrs.evolve(offset, leader_epoch=marked.leader_epoch)
        self._set(entry, offset)
        return True

    def note(self, partition: TopicPartition) -> None:
        """The handler says in metadata of its own how far it has come: marks with it are still to come."""
        self._entries[partition].is_noted = True

    def reset(self, partition: TopicPartition, offset: CommittedOffset) -> bool:
        """Move the mark back to `offset`; False, and nothing done, if it does not lie before the mark."""
        entry = self._entries[partition]
        if entry.is_void or entry.marked is None or offset.offset >= entry.marked.offset:
            return False
        self._set(entry, offset)
        return True

    def topic_gone(self, partition: TopicPartition) -> None:
        """The partition's topic is gone, and another one has its name: no mark of any of its partitions, made or to be
        made, is committed before the partition is owned anew.

        The mark is where the new topic begins, so that whoever reads it next misses nothing, whatever the policy. Not
        where marks have metadata: then its handler says where to begin.
        """
        entry = self._entries.get(partition)
        if entry is None or entry.is_void:
            return
        for other, entry in self._entries.items():
            if other.topic == partition.topic:
                entry.is_void, entry.sent = True, None
                has_metadata = entry.is_noted or (entry.marked is not None and entry.marked.metadata)
                entry.marked, entry.committed = (None if has_metadata else CommittedOffset(0)), None
        if self._on_mark is not None:
            self._tell()

    @property
    def begun_anew(self) -> frozenset[TopicPartition]:
        """Partitions whose topic was deleted, and created again."""
        return frozenset(partition for partition, entry in self._entries.items() if entry.is_void)

    def position_moved(
        self, partition: TopicPartition, before: int, after: int, *, is_first: bool, reach: Reach
    ) -> bool:
        """The log no longer has `before`, and is read on at `after`; True if that moves the mark.

        Forward: what lies between is gone, and counts as dealt with, but where the mark has metadata: it stays, since
        that is not said by whoever wrote it (a sink, whose note is held against its table), and who reads next comes to
        the same gap. Back: the mark is not beyond `after`, nor is it moved beyond by marks for what was handed out
        before; `reach` tells those from others. What its metadata says of what stands before `after` still holds.
        `is_first`: nothing has been read, so that reading begins at `after`.
        """
        entry = self._entries[partition]
        marked, moved = entry.marked, entry.moved_back
        end = before if moved is None else max(before, moved.end)
        entry.moved_back = _MovedBack(after, end, reach) if after < end else None
        metadata = marked.metadata if marked is not None else ""
        if after > before:
            moves = (marked is None or marked.offset < after) and not (metadata or entry.is_noted)
        elif marked is not None:
            moves = marked.offset > after
        else:
            moves = is_first and not entry.is_noted
        if moves:
            self._set(entry, CommittedOffset(after, metadata))
        return moves

    def _set(self, entry: _Entry, offset: CommittedOffset) -> None:
        entry.marked = offset
        if self._on_mark is not None:
            self._tell()

    def tell_of_next_mark(self, on_mark: Callable[[], None] | None) -> None:
        """Call `on_mark` once, when a mark is moved next, by whoever moves it; None: do not."""
        self._on_mark = on_mark

    def _tell(self) -> None:
        on_mark, self._on_mark = self._on_mark, None
        if on_mark is not None:
            on_mark()

    def dirty(self) -> dict[TopicPartition, CommittedOffset]:
        """The marks that are not committed as they stand."""
        return {
            tp: entry.marked
            for tp, entry in self._entries.items()
            if entry.marked is not None and (entry.marked != entry.committed or entry.sent is not None)
        }

    def send(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """`offsets` go out: until one is acknowledged, nobody knows what the group has committed for its partition."""
        for partition, offset in offsets.items():
            if (entry := self._entries.get(partition)) is not None:
                entry.sent = offset

    def acknowledge(self, sent: Mapping[TopicPartition, CommittedOffset]) -> None:
        """The coordinator has taken `sent`; it tells nothing of partitions dropped since, even if owned anew."""
        for partition, offset in sent.items():
            if (entry := self._entries.get(partition)) is not None and entry.sent == offset:
                entry.committed, entry.sent = offset, None

    def known(self, partition: TopicPartition) -> tuple[int, int]:
        """The offsets that are marked and committed, -1 for none; also of a partition that is not owned."""
        entry = self._entries.get(partition) or _Entry()
        return tuple(-1 if one is None else one.offset for one in (entry.marked, entry.committed))  # type: ignore[return-value]

    def marked(self, partition: TopicPartition) -> CommittedOffset | None:
        """The mark as it stands, committed or not."""
        return self._entries[partition].marked

    def committed(self, partition: TopicPartition) -> CommittedOffset | None:
        """What the group has committed, as far as this session knows."""
        return self._entries[partition].committed
