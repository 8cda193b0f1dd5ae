"""Marking what has been dealt with: the same for a session of a group and for a consumer without one."""

from __future__ import annotations

from abc import ABC, abstractmethod

from sarameya.message_batch import MessageBatch
from sarameya.model import NO_LEADER_EPOCH, CommittedOffset, Message, TopicPartition, is_offset
from sarameya.protocol.offset_ledger import OffsetLedger


class Marks(ABC):
    """Marks go into a ledger, out of which commits are made; they are cheap and never wait."""

    def __init__(self, ledger: OffsetLedger) -> None:
        self._ledger = ledger

    def mark_message(self, message: Message, metadata: str = "") -> None:
        """This message, and so everything before it in its partition, has been dealt with."""
        self._mark(TopicPartition(message.topic, message.partition), message.offset + 1, metadata, message.leader_epoch)

    def mark_batch(self, batch: MessageBatch, metadata: str = "") -> None:
        """This batch, and so everything before it in its partition, has been dealt with."""
        self._mark(batch.topic_partition, batch.next_offset, metadata, batch.leader_epoch)

    def mark_offset(self, topic: str, partition: int, offset: int, metadata: str = "") -> None:
        """Everything before `offset`, the next one to read, has been dealt with. Marks only move forward.

        `metadata` goes into the commit. A mark at the offset where the mark is already replaces it, and is committed,
        unless it is empty or the same. Nothing else does: where the log no longer has the position and it is moved
        (`Config.offset_out_of_range`), the mark goes along, but one with metadata does not go forward, since it would
        stand beyond what its metadata tells of: who reads next comes to the same gap. Back it goes with its metadata.

        Raises ValueError for a partition that is not claimed here, or what is no offset.
        """
        _check(offset)
        self._mark(TopicPartition(topic, partition), offset, metadata, NO_LEADER_EPOCH)

    def reset_offset(self, topic: str, partition: int, offset: int, metadata: str = "") -> None:
        """Move a mark back, so that whoever reads next begins again at `offset`. Resets only move backward.

        Raises ValueError for a partition that is not claimed here, or what is no offset.
        """
        target = TopicPartition(topic, partition)
        _check(offset)
        try:
            self._ledger.reset(target, CommittedOffset(offset, metadata))
        except KeyError:
            raise self._not_claimed(target) from None

    def _mark(self, partition: TopicPartition, offset: int, metadata: str, leader_epoch: int) -> None:
        try:
            self._ledger.mark(partition, CommittedOffset(offset, metadata, leader_epoch))
        except KeyError:
            raise self._not_claimed(partition) from None

    @abstractmethod
    def _not_claimed(self, partition: TopicPartition) -> ValueError:
        """Why `partition` has no place in the ledger."""


def _check(offset: object) -> None:
    if not is_offset(offset):
        raise ValueError(f"{offset!r} is no offset: must be an int of at least 0, the next offset to read")
