"""Marks made in asyncio's thread. Almost all of them are stored in a `MarkCell`, without any call of trio's thread."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVarTuple

from sarameya.asyncio.portal import Portal
from sarameya.group.offsets.marks import Marks
from sarameya.model import Message, TopicPartition
from sarameya.protocol.offset_ledger import MarkCell

Ts = TypeVarTuple("Ts")


class PostedMarks(Marks):
    """Base class with the methods of `Marks`, for asyncio's thread.

    A mark that its cell does not take is posted to trio's thread: about one for each commit. Whatever is posted or
    called later finds it made.

    Args:
        marks: The object in trio's thread.
    """

    def __init__(self, marks: Marks) -> None:
        super().__init__(marks._ledger)
        self._marks = marks

    @property
    @abstractmethod
    def _portal(self) -> Portal: ...

    def _mark_message(self, message: Message, metadata: str) -> None:
        self._post(message.topic_partition, self._marks._mark_message, message, metadata)
        self._cell = MarkCell("", -1)  # the next mark looks for the cell again

    def _mark(self, partition: TopicPartition, offset: int, metadata: str, leader_epoch: int) -> None:
        self._post(partition, self._marks._mark, partition, offset, metadata, leader_epoch)

    def _reset(self, partition: TopicPartition, offset: int, metadata: str) -> None:
        self._post(partition, self._marks._reset, partition, offset, metadata)

    def _post(self, partition: TopicPartition, mark: Callable[[*Ts], None], *args: *Ts) -> None:
        if not self._ledger.owns(partition):
            raise self._not_claimed(partition)
        self._portal.post(mark, *args)

    def _not_claimed(self, partition: TopicPartition) -> ValueError:
        return self._marks._not_claimed(partition)
