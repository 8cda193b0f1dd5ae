"""The offset ledger of a partition whose messages finish in any order, against a log that loses records, and a group.

Marks, resets, deleted and truncated records, refused metadata, commits without an answer, revoked and lost partitions.
The rule: neither the mark nor the group's commit covers an unfinished message.
"""

from __future__ import annotations

import os

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sarameya.model import CommittedOffset, TopicPartition
from sarameya.protocol.completion_tracker import Completion, CompletionTracker
from sarameya.protocol.offset_ledger import OffsetLedger

SOAK = int(os.environ.get("SARAMEYA_SOAK", "1"))

P = TopicPartition("t", 0)
TOPIC_ID = "ab" * 16


class TrackedLedgerModel(RuleBasedStateMachine):
    """A partition, its log, its owners one after the other, and the group's commit."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[int, int]] = []
        """Offset and leader epoch of each record."""
        self.end = 0
        self.epoch = 3
        self.finished: set[tuple[int, int]] = set()
        self.group = CommittedOffset(0)
        self.sent: CommittedOffset | None = None
        self.own()

    def own(self) -> None:
        self.ledger = OffsetLedger({P: self.group})
        self.position = self.group.offset
        self.delivered: int | None = None
        """Position after the last message delivered since the position was moved; None before the first one."""
        self.in_flight: set[tuple[int, int]] = set()
        self.sent = None
        self.tracker: CompletionTracker = self.ledger.track(P, TOPIC_ID, self.position, lambda offset: None)

    def unread(self) -> list[tuple[int, int]]:
        return [record for record in self.log if record[0] >= self.position]

    # -- the log -----------------------------------------------------------------------------------------

    @rule(gap=st.integers(0, 1), count=st.integers(1, 4))
    def append(self, gap: int, count: int) -> None:
        self.end += gap
        self.log += [(self.end + number, self.epoch) for number in range(count)]
        self.end += count

    @rule()
    def elect(self) -> None:
        self.epoch += 1

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """The log loses its first records. A position among them moves forward."""
        start = data.draw(st.sampled_from(self.log))[0]
        self.log = [record for record in self.log if record[0] >= start]
        if self.position < start:
            self.move(start)

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """The log loses its last records, and others follow. A position beyond its end moves back."""
        self.end = data.draw(st.sampled_from(self.log[-4:]))[0]
        self.log = [record for record in self.log if record[0] < self.end]
        self.epoch += 1
        self.sent = None
        if self.group.offset > self.end:  # the next owner sees that by the leader epoch of the commit
            self.group = CommittedOffset(self.end)
        if self.position > self.end:
            self.move(self.end)

    def move(self, after: int) -> None:
        before, self.position = self.position, after
        is_first, self.delivered = self.delivered is None and not self.in_flight, None
        self.ledger.position_moved(P, before, after, is_first=is_first, position_since=lambda: self.delivered)

    # -- the owner -----------------------------------------------------------------------------------

    @precondition(lambda self: self.unread())
    @rule(most=st.integers(1, 5))
    def hand_out(self, most: int) -> None:
        for record in self.unread()[:most]:
            self.position = self.delivered = record[0] + 1
            if self.tracker.hand_out(*record):
                self.in_flight.add(record)
            else:
                assert record in self.finished, "an unfinished message is skipped"

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        record = data.draw(st.sampled_from(sorted(self.in_flight)))
        self.in_flight.discard(record)
        self.finished.add(record)
        assert self.ledger.finish(P, *record)

    @rule(back=st.integers(0, 3))
    def mark_all_before(self, back: int) -> None:
        offset = max(self.position - back, 0)
        self.finished |= {record for record in self.log if record[0] < offset}
        self.ledger.mark(P, CommittedOffset(offset))

    @rule(offset=st.integers(0, 20))
    def reset(self, offset: int) -> None:
        marked = self.ledger.marked(P)
        assert self.ledger.reset(P, CommittedOffset(offset)) == (marked is not None and offset < marked.offset)

    # -- commits, and the next owner -----------------------------------------------------------------

    @rule()
    def send(self) -> None:
        self.sent = self.ledger.dirty().get(P)
        if self.sent is not None:
            self.ledger.send({P: self.sent})

    @precondition(lambda self: self.sent)
    @rule(is_answered=st.booleans())
    def store(self, is_answered: bool) -> None:
        assert self.sent is not None
        self.group = self.sent
        if is_answered:
            self.ledger.acknowledge({P: self.sent})
        self.sent = None

    @precondition(lambda self: self.sent)
    @rule()
    def refuse_metadata(self) -> None:
        assert self.sent is not None
        assert self.ledger.metadata_refused(P, self.sent) == (self.sent.metadata != "")
        self.sent = None

    @rule(is_lost=st.booleans())
    def next_owner(self, is_lost: bool) -> None:
        if not is_lost:
            self.send()
            if self.sent is not None:
                self.store(is_answered=True)
        self.ledger.drop([P])
        assert not self.ledger.finish(P, 0, self.epoch)
        self.own()

    # -- the invariant ------------------------------------------------------------------------------

    @invariant()
    def nothing_unfinished_is_covered(self) -> None:
        for commit in (self.ledger.marked(P), self.group):
            assert commit is not None
            covered = {record for record in self.log if record[0] < commit.offset}
            if (found := Completion.of_commit(commit)) is not None:
                beyond = {o for o in range(found.offset, found.end) if o not in found.unfinished}
                covered |= {record for record in self.log if record[0] in beyond and record[1] == found.epoch}
            assert covered <= self.finished

    def teardown(self) -> None:
        """Finish all messages, and check that the mark is after the last one."""
        self.hand_out(len(self.log))
        for record in sorted(self.in_flight):
            self.finished.add(record)
            self.ledger.finish(P, *record)
        self.nothing_unfinished_is_covered()
        marked = self.ledger.marked(P)
        assert marked is not None
        assert all(offset < marked.offset for offset, _ in self.in_flight.intersection(self.log))


TestTrackedLedgerModel = TrackedLedgerModel.TestCase
TestTrackedLedgerModel.settings = settings(max_examples=400 * SOAK, stateful_step_count=50)
