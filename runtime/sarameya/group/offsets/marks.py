"""Marking messages as processed: the same for a session of a group and for a consumer without one."""

from __future__ import annotations

from abc import ABC, abstractmethod

from sarameya.message_batch import MessageBatch
from sarameya.model import NO_LEADER_EPOCH, CommittedOffset, Message, TopicPartition, is_offset
from sarameya.protocol.offset_ledger import MarkCell, OffsetLedger


class Marks(ABC):
    """Base class with the public methods that mark messages. A mark goes into the offset ledger, and never waits.

    A mark is cheap: see `MarkCell`. Commits are made from the ledger.
    """

    def __init__(self, ledger: OffsetLedger) -> None:
        self._use(ledger)

    def _use(self, ledger: OffsetLedger) -> None:
        """Put marks into this ledger from now on."""
        self._ledger = ledger
        self._cell = MarkCell("", -1)
        """The cell of the last mark."""

    def mark_message(self, message: Message, metadata: str = "") -> None:
        """Mark this message, and everything before it in its partition, as processed.

        A partition that is read by `Claim.concurrently` differs: only this message is marked.
        """
        cell, offset = self._cell, message.offset
        if message.partition != cell.partition or message.topic != cell.topic:
            cell = self._cell = self._ledger.cell(message.topic_partition)
        if offset >= cell.next_offset and not metadata:
            cell.leader_epoch = message.leader_epoch
            cell.next_offset = offset + 1
        else:
            self._mark_message(message, metadata)

    def mark_batch(self, batch: MessageBatch, metadata: str = "") -> None:
        """Mark this batch, and everything before it in its partition, as processed."""
        self._mark(batch.topic_partition, batch.next_offset, metadata, batch.leader_epoch)

    def mark_offset(self, topic: str, partition: int, offset: int, metadata: str = "") -> None:
        """Mark everything before `offset` as processed. Marks only move forward.

        A mark at the offset of the current mark replaces it, and is committed, unless its metadata is empty or
        unchanged.

        If a position is reset because the log does not have it (`Config.offset_out_of_range`), the mark moves to the
        new position. A mark with metadata does not move forward: it would lie beyond the offset that its metadata
        describes, so the next reader resets its position again. It moves back together with its metadata.

        Args:
            topic: Name of the topic.
            partition: Number of the partition.
            offset: Offset of the next message to read.
            metadata: Stored with the committed offset.

        Raises:
            ValueError: The partition is not claimed here, or `offset` is not a valid offset.
        """
        _check(offset)
        self._mark(TopicPartition(topic, partition), offset, metadata, NO_LEADER_EPOCH)

    def reset_offset(self, topic: str, partition: int, offset: int, metadata: str = "") -> None:
        """Move a mark back, so that the next reader starts at `offset`. Resets only move backward.

        Args:
            topic: Name of the topic.
            partition: Number of the partition.
            offset: Offset of the next message to read.
            metadata: Stored with the committed offset.

        Raises:
            ValueError: The partition is not claimed here, or `offset` is not a valid offset.
        """
        _check(offset)
        self._reset(TopicPartition(topic, partition), offset, metadata)

    def _reset(self, partition: TopicPartition, offset: int, metadata: str) -> None:
        try:
            self._ledger.reset(partition, CommittedOffset(offset, metadata))
        except KeyError:
            raise self._not_claimed(partition) from None

    def _mark_message(self, message: Message, metadata: str) -> None:
        """Mark a message by a call of the ledger, since its cell is closed."""
        partition, offset, leader_epoch = message.topic_partition, message.offset, message.leader_epoch
        if metadata or not self._ledger.finish(partition, offset, leader_epoch):
            self._mark(partition, offset + 1, metadata, leader_epoch)
            self._cell = self._ledger.cell(partition)  # the partition may have been revoked and be back

    def _mark(self, partition: TopicPartition, offset: int, metadata: str, leader_epoch: int) -> None:
        try:
            self._ledger.mark(partition, CommittedOffset(offset, metadata, leader_epoch))
        except KeyError:
            raise self._not_claimed(partition) from None

    @abstractmethod
    def _not_claimed(self, partition: TopicPartition) -> ValueError:
        """Return the error for a partition that is not in the ledger."""


def _check(offset: object) -> None:
    if not is_offset(offset):
        raise ValueError(f"{offset!r} is no offset: must be an int of at least 0, the next offset to read")
