"""Marks of messages skip the ledger's rules, except for the first mark after a commit or an assignment."""

from __future__ import annotations

import pytest

from sarameya.group.offsets.marks import Marks
from sarameya.model import CommittedOffset, Message, TimestampType, TopicPartition
from sarameya.protocol.offset_ledger import OffsetLedger

P0 = TopicPartition("t", 0)


class _Marks(Marks):
    def _not_claimed(self, partition: TopicPartition) -> ValueError:
        return ValueError(f"{partition} is not claimed")


class _CountingLedger(OffsetLedger):
    slow_marks = 0

    def mark(self, partition: TopicPartition, offset: CommittedOffset) -> bool:
        self.slow_marks += 1
        return super().mark(partition, offset)


def message(partition: TopicPartition, offset: int) -> Message:
    return Message(*partition, offset, 0, TimestampType.CREATE_TIME, None, b"")


def slow_marks(ledger: _CountingLedger, marks: Marks, offsets: range) -> int:
    before = ledger.slow_marks
    for offset in offsets:
        marks.mark_message(message(P0, offset))
    return ledger.slow_marks - before


def test_partition_has_one_slow_mark_for_each_commit() -> None:
    ledger = _CountingLedger({P0: None})
    marks = _Marks(ledger)
    assert slow_marks(ledger, marks, range(100)) == 1
    assert ledger.dirty() == {P0: CommittedOffset(100)}
    assert slow_marks(ledger, marks, range(100, 200)) == 1
    assert ledger.dirty() == {P0: CommittedOffset(200)}


def test_partition_that_is_assigned_again_has_one_slow_mark() -> None:
    ledger = _CountingLedger({P0: None})
    marks = _Marks(ledger)
    slow_marks(ledger, marks, range(10))
    ledger.drop([P0])
    ledger.add({P0: CommittedOffset(10)})
    assert slow_marks(ledger, marks, range(10, 20)) == 1


def test_mark_of_a_revoked_partition_is_refused() -> None:
    ledger = _CountingLedger({P0: None})
    marks = _Marks(ledger)
    slow_marks(ledger, marks, range(10))
    ledger.drop([P0])
    with pytest.raises(ValueError, match="t-0 is not claimed"):
        marks.mark_message(message(P0, 10))
