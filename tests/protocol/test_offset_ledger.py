"""The offset ledger: marks, resets and commits."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from sarameya.model import CommittedOffset, TopicPartition
from sarameya.protocol.completion_tracker import CompletionTracker
from sarameya.protocol.offset_ledger import OffsetLedger

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def at(offset: int, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(offset, metadata)


def send(ledger: OffsetLedger) -> dict[TopicPartition, CommittedOffset]:
    offsets = ledger.dirty()
    ledger.send(offsets)
    return offsets


def test_fresh_ledger_is_clean() -> None:
    ledger = OffsetLedger({P0: at(5), P1: None})
    assert ledger.dirty() == {}
    assert ledger.marked(P0) == at(5)
    assert ledger.marked(P1) is None


def test_mark_moves_forward_only() -> None:
    ledger = OffsetLedger({P0: at(5)})
    assert ledger.mark(P0, at(8))
    assert not ledger.mark(P0, at(8))
    assert not ledger.mark(P0, at(7))
    assert ledger.dirty() == {P0: at(8)}


def test_mark_at_the_same_offset_replaces_only_metadata() -> None:
    ledger = OffsetLedger({P0: CommittedOffset(5, "old", 3)})
    assert ledger.mark(P0, at(5, "new"))
    assert ledger.dirty() == {P0: CommittedOffset(5, "new", 3)}, "the messages before it have the same leader epoch"
    ledger.acknowledge(send(ledger))
    assert not ledger.mark(P0, at(5, "new")), "nothing new"
    assert not ledger.mark(P0, at(5)), "a mark without metadata does not remove metadata"
    assert not ledger.mark(P0, at(4, "newer"))
    assert ledger.dirty() == {}
    assert ledger.mark(P0, CommittedOffset(5, "newer", 4))
    assert ledger.dirty() == {P0: CommittedOffset(5, "newer", 4)}


def test_reset_moves_backward_only() -> None:
    ledger = OffsetLedger({P0: at(5), P1: None})
    assert not ledger.reset(P0, at(5))
    assert not ledger.reset(P0, at(6))
    assert not ledger.reset(P1, at(0)), "nothing to reset"
    assert ledger.reset(P0, at(2, "replay"))
    assert ledger.dirty() == {P0: at(2, "replay")}


def test_first_mark_of_an_uncommitted_partition_may_be_zero() -> None:
    ledger = OffsetLedger({P1: None})
    assert ledger.mark(P1, at(0))
    assert ledger.dirty() == {P1: at(0)}


def test_acknowledged_mark_is_clean() -> None:
    ledger = OffsetLedger({P0: at(5)})
    ledger.mark(P0, at(8))
    ledger.acknowledge(send(ledger))
    assert ledger.dirty() == {}
    assert ledger.committed(P0) == at(8)


def test_mark_moved_during_its_commit_stays_dirty() -> None:
    ledger = OffsetLedger({P0: at(5)})
    ledger.mark(P0, at(8))
    sent = send(ledger)
    ledger.mark(P0, at(9))
    ledger.acknowledge(sent)
    assert ledger.dirty() == {P0: at(9)}


def test_reset_during_a_commit_stays_dirty() -> None:
    ledger = OffsetLedger({P0: at(5)})
    ledger.mark(P0, at(8))
    sent = send(ledger)
    ledger.reset(P0, at(6))
    ledger.acknowledge(sent)
    assert ledger.dirty() == {P0: at(6)}


def test_changed_metadata_alone_is_dirty() -> None:
    ledger = OffsetLedger({P0: at(5)})
    ledger.mark(P0, at(8, "a"))
    sent = send(ledger)
    ledger.reset(P0, at(5))
    ledger.mark(P0, at(8, "b"))
    ledger.acknowledge(sent)
    assert ledger.dirty() == {P0: at(8, "b")}


def test_reset_below_an_unanswered_commit_is_dirty() -> None:
    """The coordinator may have stored that commit. Without another one it would keep the mark before the reset."""
    ledger = OffsetLedger({P0: at(5)})
    ledger.mark(P0, at(8))
    send(ledger)
    ledger.reset(P0, at(5))
    assert ledger.dirty() == {P0: at(5)}
    ledger.acknowledge(send(ledger))
    assert ledger.dirty() == {}


def test_late_commit_response_of_a_lost_partition_is_ignored() -> None:
    ledger = OffsetLedger({P0: at(5)})
    ledger.mark(P0, at(8))
    sent = send(ledger)
    ledger.drop([P0])
    ledger.add({P0: at(9)})
    ledger.acknowledge(sent)
    assert ledger.committed(P0) == at(9)


def test_uncommitted_mark_survives_a_new_offset_fetch() -> None:
    ledger = OffsetLedger({P0: at(5), P1: at(5)})
    ledger.mark(P0, at(8))
    ledger.add({P0: at(6), P1: at(7)})
    assert ledger.dirty() == {P0: at(8)}
    assert (ledger.committed(P0), ledger.committed(P1)) == (at(6), at(7))
    assert ledger.marked(P1) == at(7)


def test_mark_found_committed_by_a_new_fetch_is_clean() -> None:
    ledger = OffsetLedger({P0: at(5)})
    ledger.mark(P0, at(8))
    ledger.add({P0: at(8)})
    assert ledger.dirty() == {}


def test_unanswered_commit_is_repeated_after_a_new_fetch() -> None:
    """The coordinator may store the commit after that fetch."""
    ledger = OffsetLedger({P0: at(5)})
    ledger.mark(P0, at(8))
    send(ledger)
    ledger.reset(P0, at(5))
    ledger.add({P0: at(5)})
    assert ledger.dirty() == {P0: at(5)}


def test_partition_that_is_not_owned_raises_key_error() -> None:
    ledger = OffsetLedger({P0: None})
    with pytest.raises(KeyError):
        ledger.mark(P1, at(1))
    with pytest.raises(KeyError):
        ledger.reset(P1, at(1))


def test_next_mark_is_notified_once_and_only_when_it_moves() -> None:
    ledger = OffsetLedger({P0: at(5)})
    notified: list[str] = []
    ledger.notify_next_mark(lambda: notified.append("first"))
    ledger.mark(P0, at(5))
    assert not notified, "the mark has not moved"
    ledger.mark(P0, at(6))
    ledger.mark(P0, at(7))
    assert notified == ["first"]
    ledger.notify_next_mark(lambda: notified.append("second"))
    ledger.reset(P0, at(2))
    assert notified == ["first", "second"]
    ledger.notify_next_mark(lambda: notified.append("third"))
    ledger.notify_next_mark(None)
    ledger.mark(P0, at(8))
    assert notified == ["first", "second"]


# -- moved positions -----------------------------------------------------------------------------------------


class Moved:
    """Partition P0, read up to `before` and moved to `after`. `reached` is its position since then, or None."""

    def __init__(self, marked: int | None, before: int, after: int, *, is_first: bool = False) -> None:
        self.reached: int | None = None
        self.ledger = OffsetLedger({P0: None if marked is None else at(marked)})
        self.has_moved_mark = self.move(before, after, is_first=is_first)

    def move(self, before: int, after: int, *, is_first: bool = False) -> bool:
        return self.ledger.position_moved(P0, before, after, is_first=is_first, position_since=lambda: self.reached)

    def mark(self, offset: int) -> int | None:
        """Mark `offset` and return the offset that is marked then."""
        self.ledger.mark(P0, at(offset))
        marked = self.ledger.marked(P0)
        return None if marked is None else marked.offset


@pytest.mark.parametrize(
    ("marked", "before", "after", "is_first", "expected"),
    [
        (None, 100, 50, False, None),  # messages were handed out, and none was marked
        (None, 100, 50, True, 50),  # reading starts there
        (20, 100, 50, False, 20),
        (80, 100, 50, False, 50),
        (500, 100, 50, False, 50),
        (None, 100, 150, False, 150),  # the log has nothing before it
        (20, 100, 150, False, 150),
        (500, 100, 150, False, 500),  # marked ahead
        (20, 100, 100, False, 20),
        (100, 100, 100, False, 100),
    ],
)
def test_reset_moves_the_mark_without_skipping_messages(
    marked: int | None, before: int, after: int, is_first: bool, expected: int | None
) -> None:
    moved = Moved(marked, before, after, is_first=is_first)
    assert moved.ledger.marked(P0) == (None if expected is None else at(expected))
    assert moved.has_moved_mark == (expected != marked)


def test_marks_of_earlier_messages_stop_at_the_new_position() -> None:
    moved = Moved(20, 100, 50)
    assert [moved.mark(offset) for offset in (30, 70, 100)] == [30, 50, 50]


def test_marks_reach_the_position_since_the_reset() -> None:
    moved = Moved(20, 100, 50)
    moved.reached = 60
    assert [moved.mark(offset) for offset in (100, 55, 60, 61, 100)] == [50, 55, 60, 60, 60]


def test_marks_are_unlimited_after_the_old_position() -> None:
    moved = Moved(20, 100, 50)
    moved.reached = 100
    assert moved.mark(500) == 500
    moved.reached = 60  # no longer used
    assert moved.mark(501) == 501


def test_two_backward_resets_limit_marks_of_both() -> None:
    moved = Moved(20, 100, 50)
    moved.reached = 60
    moved.mark(60)
    assert moved.move(70, 40)
    moved.reached = None
    assert moved.mark(100) == 40
    moved.reached = 90
    assert [moved.mark(95), moved.mark(90)] == [40, 90]


def test_backward_then_forward_reset_limits_marks() -> None:
    moved = Moved(20, 100, 50)
    assert moved.move(50, 70)
    assert moved.mark(100) == 70
    assert moved.move(70, 150)
    assert moved.mark(200) == 200


@pytest.mark.parametrize("is_first", [False, True])
def test_forward_reset_keeps_a_mark_with_metadata(is_first: bool) -> None:
    """A sink's metadata, for example, describes the landed messages. No other commit may replace it or go beyond it."""
    moved = Moved(None, 100, 100)
    moved.ledger.mark(P0, at(90, "landed to 90"))
    assert not moved.move(100, 150, is_first=is_first)
    assert moved.ledger.dirty() == {P0: at(90, "landed to 90")}
    assert moved.ledger.mark(P0, at(100, "landed to 100"))
    assert moved.ledger.mark(P0, at(160, "landed to 160, but for what was gone"))


@pytest.mark.parametrize(("before", "after"), [(100, 150), (100, 50)])
def test_reset_sets_no_mark_for_a_handler_with_metadata(before: int, after: int) -> None:
    ledger = OffsetLedger({P0: None})
    ledger.note(P0)
    assert not ledger.position_moved(P0, before, after, is_first=True, position_since=lambda: None)
    assert ledger.dirty() == {}


def test_backward_reset_moves_a_mark_with_its_metadata() -> None:
    """The metadata describes all messages before the mark. A late mark of the handler changes only the metadata."""
    ledger = OffsetLedger({P0: at(80, "landed to 80")})
    assert ledger.position_moved(P0, 100, 50, is_first=False, position_since=lambda: None)
    assert ledger.dirty() == {P0: at(50, "landed to 80")}
    assert ledger.mark(P0, at(100, "landed to 100"))
    assert ledger.dirty() == {P0: at(50, "landed to 100")}


def test_partition_owned_again_is_marked_without_a_limit() -> None:
    moved = Moved(20, 100, 50)
    moved.mark(30)
    moved.ledger.add({P0: at(20)})
    assert moved.mark(90) == 90


def test_deleted_topic_is_not_committed_until_owned_again() -> None:
    other = TopicPartition("other", 0)
    ledger = OffsetLedger({P0: at(5), P1: at(5), other: at(5)})
    for partition in (P0, P1, other):
        ledger.mark(partition, at(8))
    for partition in (TopicPartition("unknown", 0), P0, P1):
        ledger.topic_recreated(partition)
    assert not ledger.mark(P0, at(9))
    assert not ledger.reset(P1, at(6))
    assert ledger.dirty() == {P0: at(0), P1: at(0), other: at(8)}, "the start of the new topic"
    assert ledger.recreated == {P0, P1}
    ledger.send({P1: at(0)})
    ledger.acknowledge({P1: at(0)})
    ledger.add({P0: at(2)})
    assert ledger.mark(P0, at(3))
    assert not ledger.mark(P1, at(9))
    assert ledger.dirty() == {P0: at(3), other: at(8)}


def test_deleted_topic_keeps_metadata_in_use() -> None:
    ledger = OffsetLedger({P0: at(5, "landed to 5"), P1: at(5)})
    ledger.note(P1)
    ledger.topic_recreated(P0)
    assert ledger.dirty() == {}


def test_completion_does_not_hold_a_reset_back() -> None:
    tracker = CompletionTracker(CommittedOffset(5), "")
    for offset in (5, 6):
        tracker.hand_out(offset, 1)
    tracker.finish(6, 1)
    ledger = OffsetLedger({P0: tracker.commit()})
    assert ledger.position_moved(P0, 5, 10, is_first=True, position_since=lambda: None)
    assert ledger.marked(P0) == CommittedOffset(10)


@pytest.mark.parametrize("position", [0, 8])
def test_completion_is_ignored_at_another_start_offset(position: int) -> None:
    """A handler's `start_offset` may choose a position inside the range that the metadata describes."""
    tracker = CompletionTracker(CommittedOffset(5), "")
    for offset in range(5, 10):
        tracker.hand_out(offset, 1)
    for offset in range(6, 10):
        tracker.finish(offset, 1)
    ledger = OffsetLedger({P0: tracker.commit()})
    later = ledger.track(P0, "", position, lambda offset: None)
    assert later.hand_out(8, 1)


def test_completion_does_not_outlive_its_topic() -> None:
    tracker = CompletionTracker(CommittedOffset(5), "")
    for offset in (5, 6):
        tracker.hand_out(offset, 1)
    tracker.finish(6, 1)
    ledger = OffsetLedger({P0: tracker.commit()})
    ledger.topic_recreated(P0)
    assert ledger.dirty() == {P0: CommittedOffset(0)}


def test_marks_of_a_tracked_partition_stop_at_the_reset_position() -> None:
    ledger = OffsetLedger({P0: CommittedOffset(0)})
    tracker = ledger.track(P0, "", 0, lambda offset: None)
    for offset in range(20):
        tracker.hand_out(offset, 1)
    for offset in range(15):
        assert ledger.finish(P0, offset, 1)
    position: list[int] = []
    ledger.position_moved(P0, 20, 10, is_first=False, position_since=lambda: position[-1] if position else None)
    assert ledger.marked(P0) == CommittedOffset(10)
    ledger.finish(P0, 15, 1)
    assert ledger.marked(P0) == CommittedOffset(10)
    position.append(11)
    assert tracker.hand_out(10, 2)
    ledger.finish(P0, 10, 2)
    assert ledger.marked(P0) == CommittedOffset(11, leader_epoch=2)


@pytest.mark.parametrize("switch", range(12))
def test_mark_of_another_thread_survives_closing_the_cell(switch: int) -> None:
    """A thread may mark at each call that `marked` makes: the mark counts, or the thread finds the cell closed."""
    ledger = OffsetLedger({P0: at(5)})
    ledger.mark(P0, at(6))
    cell, calls, is_stored = ledger.cell(P0), 0, False
    cell.next_offset = 7  # the mark of message 6

    def mark_message_7(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls, is_stored
        if event not in ("call", "c_call"):
            return
        if calls == switch and cell.next_offset <= 7:
            is_stored, cell.next_offset = True, 8
        calls += 1

    sys.setprofile(mark_message_7)
    try:
        found = ledger.marked(P0)
    finally:
        sys.setprofile(None)
    assert found == at(8 if is_stored else 7)
