"""The completion tracker against plain sets: messages that finish in any order, commits, crashes, other records.

A log has gaps. Owners come one after the other: each starts at the last commit that the coordinator has stored, which
may be older than the last one that was made.
"""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sarameya.model import CommittedOffset
from sarameya.protocol.completion_tracker import METADATA_BYTES, Completion, CompletionTracker

SOAK = int(os.environ.get("SARAMEYA_SOAK", "1"))

TOPIC_ID = "ab" * 16
OTHER_ID = "cd" * 16
SMALL = 100
"""A limit of metadata that a few messages reach."""


class CompletionModel(RuleBasedStateMachine):
    """One partition, its messages, and its owners."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[int] = []
        self.next = 0
        self.finished: set[int] = set()
        self.commit = CommittedOffset(0)
        self.covered: set[int] = set()
        """Finished when the commit was made: the next owner need not repeat them."""
        self.own(CompletionTracker(0, TOPIC_ID, metadata_bytes=SMALL), may_repeat=set())

    def own(self, tracker: CompletionTracker, may_repeat: set[int]) -> None:
        self.tracker = tracker
        self.may_repeat = may_repeat
        self.in_flight: set[int] = set()
        self.handled: set[int] = set()
        self.read_to = self.commit.offset

    @rule(gap=st.integers(0, 300), count=st.integers(1, 5))
    def append(self, gap: int, count: int) -> None:
        self.next += gap
        for _ in range(count):
            self.log.append(self.next)
            self.next += 1

    @rule()
    def hand_out(self) -> None:
        message = next((offset for offset in self.log if offset >= self.read_to), None)
        if message is None or not self.tracker.has_room:
            return
        self.read_to = message + 1
        if self.tracker.hand_out(message, 3):
            assert message not in self.finished or message in self.may_repeat
            self.in_flight.add(message)
        else:
            assert message in self.finished, "a message is skipped that nobody has finished"

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        message = data.draw(st.sampled_from(sorted(self.in_flight)))
        self.in_flight.discard(message)
        self.finished.add(message)
        self.tracker.finish(message)

    @rule()
    def read_gap(self) -> None:
        """The log has no message between what was read and the next one, or its end."""
        position = next((offset for offset in self.log if offset >= self.read_to), self.next)
        self.tracker.pass_over(position)

    @rule(is_stored=st.booleans())
    def make_commit(self, is_stored: bool) -> None:
        commit = self.tracker.commit(3)
        assert len(commit.metadata) <= SMALL
        if is_stored:
            self.commit = commit
            self.covered = set(self.finished)

    @rule(keeps_metadata=st.booleans(), is_same_topic=st.booleans(), is_truncated=st.booleans())
    def crash(self, keeps_metadata: bool, is_same_topic: bool, is_truncated: bool) -> None:
        """Another owner starts at the commit, or at one that a client without such metadata has made."""
        if not keeps_metadata:
            self.commit = CommittedOffset(self.commit.offset, "note of somebody else")
        found = Completion.of_commit(self.commit)
        end = self.commit.offset if found is None else found.end
        tracker = CompletionTracker.restored(
            self.commit,
            TOPIC_ID if is_same_topic else OTHER_ID,
            end - 1 if is_truncated else end,
            metadata_bytes=SMALL,
        )
        is_usable = found is not None and is_same_topic and not is_truncated
        assert tracker.position == self.commit.offset
        assert tracker.end == (end if is_usable else self.commit.offset)
        if not is_same_topic:
            tracker = CompletionTracker(self.commit.offset, TOPIC_ID, metadata_bytes=SMALL)
        done = {offset for offset in self.finished if offset >= self.commit.offset}
        covered = {offset for offset in self.covered if offset < tracker.end}
        self.own(tracker, may_repeat=done - covered)

    @invariant()
    def commit_skips_nothing(self) -> None:
        skipped = {offset for offset in self.log if offset < self.tracker.position} - self.finished
        assert skipped == set()

    @invariant()
    def metadata_covers_finished_messages_only(self) -> None:
        completion = self.tracker.completion()
        covered = {offset for offset in self.log if completion.offset <= offset < completion.end}
        assert covered - set(completion.unfinished) <= self.finished
        assert Completion.of_commit(self.tracker.commit()) in (completion, None)

    @invariant()
    def one_message_always_has_room(self) -> None:
        assert self.tracker.unfinished > 0 or self.tracker.has_room


TestCompletionModel = CompletionModel.TestCase
TestCompletionModel.settings = settings(max_examples=300 * SOAK, stateful_step_count=50)


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda data: f"sarameya-completion-1:{data.hex()}"))
def test_metadata_of_others_is_ignored(metadata: str) -> None:
    found = Completion.of_commit(CommittedOffset(2**62, metadata))
    assert found is None or found.offset == 2**62


@given(st.sets(st.integers(0, 10_000), max_size=700), st.integers(0, 2**40), st.integers(-1, 2**31 - 1))
def test_metadata_fits_as_long_as_there_is_room(unfinished: set[int], start: int, epoch: int) -> None:
    tracker = CompletionTracker(start, TOPIC_ID)
    for offset in range(start, start + 10_001):
        if offset - start in unfinished:
            if not tracker.has_room:
                break
            tracker.hand_out(offset, epoch)
    tracker.pass_over(start + 10_001)
    assert len(tracker.commit().metadata) <= METADATA_BYTES
    if len(unfinished) < 700:
        assert Completion.of_commit(tracker.commit()) in (tracker.completion(), None)


def test_hundreds_of_unfinished_messages_fit() -> None:
    tracker = CompletionTracker(0, TOPIC_ID)
    for offset in range(0, 20_000, 10):
        if not tracker.has_room:
            break
        tracker.hand_out(offset)
    assert tracker.unfinished > 700


def test_metadata_of_another_offset_is_ignored() -> None:
    tracker = CompletionTracker(5, TOPIC_ID)
    for offset in (5, 6):
        tracker.hand_out(offset)
    tracker.finish(6)
    commit = tracker.commit()
    assert Completion.of_commit(commit) == tracker.completion()
    assert Completion.of_commit(CommittedOffset(6, commit.metadata)) is None


def test_long_gap_leaves_the_metadata_out_rather_than_exceed_its_limit() -> None:
    tracker = CompletionTracker(0, TOPIC_ID)
    offset = 0
    while tracker.has_room:
        tracker.hand_out(offset)
        offset += 2
    tracker.pass_over(2**60)
    assert len(tracker.commit().metadata) <= METADATA_BYTES
    tracker.finish(0)
    assert tracker.commit().offset == 2
