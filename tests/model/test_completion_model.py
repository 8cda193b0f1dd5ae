"""The completion tracker against plain sets: messages that finish in any order, commits, crashes, other records.

A log has gaps. Owners come one after the other: each starts at the last commit that the coordinator has stored, which
may be older than the last one that was made.
"""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sarameya.model import NO_LEADER_EPOCH, CommittedOffset
from sarameya.protocol.completion_tracker import METADATA_BYTES, Completion, CompletionTracker

SOAK = int(os.environ.get("SARAMEYA_SOAK", "1"))

TOPIC_ID = "ab" * 16
OTHER_ID = "cd" * 16
SMALL = 100
"""A limit of metadata that a few messages reach."""


class CompletionModel(RuleBasedStateMachine):
    """A partition, its messages, and its owners. A message is an offset and a leader epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[int, int]] = []
        self.next = 0
        self.epoch = 3
        self.finished: set[tuple[int, int]] = set()
        self.commit = CommittedOffset(0)
        self.covered: set[tuple[int, int]] = set()
        """Messages finished when the commit was made: the next owner need not repeat them."""
        self.own(CompletionTracker(CommittedOffset(0), TOPIC_ID, metadata_bytes=SMALL))

    def own(self, tracker: CompletionTracker) -> None:
        self.tracker = tracker
        self.in_flight: set[tuple[int, int]] = set()
        self.may_skip = set(self.covered)
        self.read_to = self.commit.offset

    @rule(gap=st.integers(0, 300), count=st.integers(1, 5))
    def append(self, gap: int, count: int) -> None:
        self.next += gap
        for _ in range(count):
            self.log.append((self.next, self.epoch))
            self.next += 1

    @rule()
    def elect(self) -> None:
        self.epoch += 1

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        self.log.remove(data.draw(st.sampled_from(self.log)))

    @rule()
    def hand_out(self) -> None:
        message = next((message for message in self.log if message[0] >= self.read_to), None)
        if message is None or not self.tracker.has_room:
            return
        self.read_to = message[0] + 1
        if self.tracker.hand_out(*message):
            self.in_flight.add(message)
        else:
            assert message in self.finished & self.may_skip, "an unfinished message is skipped"

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        message = data.draw(st.sampled_from(sorted(self.in_flight)))
        self.in_flight.discard(message)
        self.finished.add(message)
        self.tracker.finish(*message)

    @rule(is_stored=st.booleans())
    def make_commit(self, is_stored: bool) -> None:
        commit = self.tracker.commit()
        assert len(commit.metadata) <= SMALL
        if commit.offset > self.read_to:  # until a message is read after a truncation, the ledger bounds the mark
            commit = CommittedOffset(self.read_to)
        if is_stored:
            self.commit = commit
            self.covered = set(self.finished)

    @precondition(lambda self: self.log)
    @rule(data=st.data(), is_noticed=st.booleans())
    def truncate(self, data: st.DataObject, is_noticed: bool) -> None:
        """An unclean election: the log loses its end, and a position beyond the new end moves back."""
        offset, _ = data.draw(st.sampled_from(self.log))
        self.log = [message for message in self.log if message[0] < offset]
        self.next, self.epoch = offset, self.epoch + 1
        if is_noticed:
            self.append(0, 1)
        self.read_to = min(self.read_to, offset)
        if self.commit.offset > offset:  # the ledger moves the mark back
            self.commit = CommittedOffset(offset)

    @rule(keeps_metadata=st.booleans(), is_same_topic=st.booleans())
    def crash(self, keeps_metadata: bool, is_same_topic: bool) -> None:
        """Start another owner at the commit, or at the commit of a client without such metadata."""
        if not keeps_metadata:
            self.commit = CommittedOffset(self.commit.offset, "note of another client")
            self.covered = set()
        if not is_same_topic:
            other = CompletionTracker(self.commit, OTHER_ID, metadata_bytes=SMALL)
            assert other.completion().unfinished == ()
        tracker = CompletionTracker(self.commit, TOPIC_ID, metadata_bytes=SMALL)
        assert tracker.position == self.commit.offset
        self.own(tracker)

    @invariant()
    def commit_skips_nothing(self) -> None:
        skipped = {message for message in self.log if message[0] < min(self.tracker.position, self.read_to)}
        assert skipped <= self.finished

    @invariant()
    def metadata_covers_finished_messages_only(self) -> None:
        completion = self.tracker.completion()
        covered = {(offset, epoch) for offset, epoch in self.log if completion.offset <= offset < completion.end}
        done = {message for message in covered - self.finished if message[0] not in completion.unfinished}
        assert all(epoch != completion.epoch for _, epoch in done)
        assert Completion.of_commit(self.tracker.commit()) in (completion, None)

    @invariant()
    def one_message_always_has_room(self) -> None:
        assert self.tracker.in_flight > 0 or self.tracker.has_room

    @invariant()
    def tracker_waits_only_for_messages_in_flight(self) -> None:
        assert self.tracker.in_flight <= len(self.in_flight)

    def teardown(self) -> None:
        """Once all messages are read and finished, the commit is after the last one."""
        unread = [message for message in self.log if message[0] >= self.read_to]
        for message in self.in_flight:
            self.tracker.finish(*message)
        for message in unread:
            self.tracker.hand_out(*message)
            self.tracker.finish(*message)
        assert self.tracker.in_flight == 0
        if unread:
            assert self.tracker.position > unread[-1][0]


TestCompletionModel = CompletionModel.TestCase
TestCompletionModel.settings = settings(max_examples=300 * SOAK, stateful_step_count=50)


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda data: f"sarameya-completion-1:{data.hex()}"))
def test_metadata_of_other_clients_is_ignored(metadata: str) -> None:
    found = Completion.of_commit(CommittedOffset(2**62, metadata))
    assert found is None or found.offset == 2**62


@given(st.sets(st.integers(0, 10_000), max_size=700), st.integers(0, 2**40), st.integers(0, 2**31 - 1))
def test_metadata_fits_while_the_tracker_has_room(unfinished: set[int], start: int, epoch: int) -> None:
    tracker = CompletionTracker(CommittedOffset(start), TOPIC_ID)
    for offset in range(start, start + 10_001):
        if not tracker.has_room:
            break
        tracker.hand_out(offset, epoch)
        if offset - start not in unfinished:
            tracker.finish(offset, epoch)
    commit = tracker.commit()
    assert len(commit.metadata) <= METADATA_BYTES
    assert Completion.of_commit(commit) == tracker.completion() or not commit.metadata


def test_hundreds_of_unfinished_messages_fit() -> None:
    tracker = CompletionTracker(CommittedOffset(0), TOPIC_ID)
    for offset in range(0, 20_000, 10):
        if not tracker.has_room:
            break
        tracker.hand_out(offset, 1)
    assert tracker.in_flight > 700


def in_flight(*offsets: int, epoch: int = 1) -> CompletionTracker:
    tracker = CompletionTracker(CommittedOffset(offsets[0]), TOPIC_ID)
    for offset in offsets:
        tracker.hand_out(offset, epoch)
    return tracker


def test_metadata_of_another_offset_is_ignored() -> None:
    tracker = in_flight(5, 6)
    tracker.finish(6, 1)
    commit = tracker.commit()
    assert Completion.of_commit(commit) == tracker.completion()
    assert Completion.of_commit(CommittedOffset(6, commit.metadata)) is None


def test_metadata_that_a_long_gap_makes_too_long_is_omitted() -> None:
    tracker = CompletionTracker(CommittedOffset(0), TOPIC_ID)
    offset = 0
    while tracker.has_room:
        tracker.hand_out(offset, 1)
        offset += 2
    tracker.hand_out(2**60, 1)
    assert len(tracker.commit().metadata) <= METADATA_BYTES
    tracker.finish(0, 1)
    assert tracker.commit().offset == 2


def test_mark_does_not_finish_a_newer_record_of_its_offset() -> None:
    tracker = in_flight(5, 6, epoch=1)
    assert tracker.hand_out(6, 2)
    tracker.finish(5, 1)
    tracker.finish(6, 1)
    assert tracker.position == 6
    tracker.finish(6, 2)
    assert tracker.position == 7


def test_metadata_does_not_apply_to_other_records() -> None:
    tracker = in_flight(5, 6, 7, epoch=1)
    tracker.finish(6, 1)
    tracker.finish(7, 1)
    next_owner = CompletionTracker(tracker.commit(), TOPIC_ID)
    assert next_owner.hand_out(5, 1)
    assert not next_owner.hand_out(6, 1)
    assert next_owner.hand_out(7, 2), "offset 7 is another record now"


def test_records_without_a_leader_epoch_are_repeated() -> None:
    tracker = in_flight(5, 6, epoch=NO_LEADER_EPOCH)
    tracker.finish(6)
    assert tracker.commit() == CommittedOffset(5)


def test_commit_has_the_leader_epoch_of_the_message_before_it() -> None:
    tracker = CompletionTracker(CommittedOffset(5, leader_epoch=1), TOPIC_ID)
    for offset, epoch in ((5, 1), (6, 2), (7, 4)):
        tracker.hand_out(offset, epoch)
    epochs = [tracker.commit().leader_epoch]
    for offset, epoch in ((5, 1), (6, 2), (7, 4)):
        tracker.finish(offset, epoch)
        epochs.append(tracker.commit().leader_epoch)
    assert epochs == [1, 1, 2, 4]


def test_compacted_message_does_not_hold_the_position() -> None:
    tracker = in_flight(5, 6, 7)
    tracker.finish(7, 1)
    next_owner = CompletionTracker(tracker.commit(), TOPIC_ID)
    assert not next_owner.hand_out(7, 1)
    assert next_owner.position == 8


def test_metadata_of_another_topic_is_ignored() -> None:
    tracker = in_flight(5, 6)
    tracker.finish(6, 1)
    new_topic = CompletionTracker(tracker.commit(), OTHER_ID)
    assert new_topic.hand_out(5, 1)
    assert new_topic.hand_out(6, 1)
