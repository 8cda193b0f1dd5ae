"""Marks in asyncio's thread. Most of them need no call into trio's thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

import pytest

from sarameya.asyncio.marks import PostedMarks
from sarameya.asyncio.portal import Portal
from sarameya.group.offsets.marks import Marks
from sarameya.model import CommittedOffset, Message, TimestampType, TopicPartition
from sarameya.protocol.offset_ledger import OffsetLedger

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class TrioMarks(Marks):
    def _not_claimed(self, partition: TopicPartition) -> ValueError:
        return ValueError(f"{partition} is not claimed")


class ManualPortal:
    """A portal that runs posted functions when the test calls `run`."""

    def __init__(self) -> None:
        self.posted: list[Callable[[], object]] = []

    def post(self, function: Callable[..., object], *args: object) -> None:
        self.posted.append(partial(function, *args))

    def run(self) -> int:
        posted, self.posted = self.posted, []
        for function in posted:
            function()
        return len(posted)


class AsyncioMarks(PostedMarks):
    def __init__(self, marks: Marks, thread: ManualPortal) -> None:
        super().__init__(marks)
        self.thread = thread

    @property
    def _portal(self) -> Portal:
        return cast(Portal, self.thread)


def message(partition: TopicPartition, offset: int) -> Message:
    return Message(*partition, offset, 0, TimestampType.CREATE_TIME, None, b"")


def marks_of(ledger: OffsetLedger) -> tuple[AsyncioMarks, ManualPortal]:
    thread = ManualPortal()
    return AsyncioMarks(TrioMarks(ledger), thread), thread


def test_partition_needs_one_call_per_commit() -> None:
    ledger = OffsetLedger({P0: None, P1: None})
    marks, thread = marks_of(ledger)
    for begin in (0, 100):
        for offset in range(begin, begin + 100):
            for partition in (P0, P1):
                marks.mark_message(message(partition, offset))
            if offset == begin:
                assert thread.run() == 2
        assert thread.run() == 0
        assert ledger.dirty() == {P0: CommittedOffset(begin + 100), P1: CommittedOffset(begin + 100)}


def test_posted_marks_are_made_in_their_order() -> None:
    ledger = OffsetLedger({P0: None})
    marks, thread = marks_of(ledger)
    for offset in range(3):
        marks.mark_message(message(P0, offset))
    marks.reset_offset("t", 0, 1)
    marks.mark_offset("t", 0, 2, "note")
    marks.mark_message(message(P0, 4), "another")
    assert ledger.marked(P0) is None
    assert thread.run() == 6
    assert ledger.marked(P0) == CommittedOffset(5, "another")


def test_mark_of_unclaimed_partition_is_refused_at_once() -> None:
    ledger = OffsetLedger({P0: None})
    marks, thread = marks_of(ledger)
    marks.mark_message(message(P0, 0))
    thread.run()
    marks.mark_message(message(P0, 1))
    ledger.drop([P0])
    for mark in (
        lambda: marks.mark_message(message(P0, 2)),
        lambda: marks.mark_offset("t", 0, 3),
        lambda: marks.reset_offset("t", 0, 0),
    ):
        with pytest.raises(ValueError, match="t-0 is not claimed"):
            mark()
    assert thread.run() == 0
    ledger.add({P0: None})
    marks.mark_message(message(P0, 0))
    thread.run()
    marks.mark_message(message(P0, 1))
    assert ledger.dirty() == {P0: CommittedOffset(2)}


def test_messages_finished_out_of_order_are_marked_one_by_one() -> None:
    ledger = OffsetLedger({P0: CommittedOffset(0)})
    marks, thread = marks_of(ledger)
    tracker = ledger.track(P0, "", 0, lambda offset: None)
    for offset in range(3):
        tracker.hand_out(offset, -1)
    marks.mark_message(message(P0, 1))
    marks.mark_message(message(P0, 0))
    assert thread.run() == 2
    found = ledger.marked(P0)
    assert found is not None
    assert found.offset == 2
