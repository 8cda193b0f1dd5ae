"""The offset ledger against a group that takes its commits: marks, resets, commits whose answers are late or lost.

What must hold: no mark is forgotten. Where the ledger has nothing left to commit, the group has the mark.
"""

from __future__ import annotations

import os

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sarameya.model import CommittedOffset, TopicPartition
from sarameya.protocol.offset_ledger import OffsetLedger

SOAK = int(os.environ.get("SARAMEYA_SOAK", "1"))

PARTITIONS = [TopicPartition("t", number) for number in range(3)]

Partitions = st.sampled_from(PARTITIONS)
Offsets = st.builds(CommittedOffset, st.integers(0, 6), st.sampled_from(["", "note"]))


class LedgerModel(RuleBasedStateMachine):
    """The ledger of one session, the group's commits, and at most one commit under way, as in the offset manager."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = OffsetLedger()
        self.group: dict[TopicPartition, CommittedOffset] = {}
        self.marks: dict[TopicPartition, CommittedOffset | None] = {}
        self.sent: dict[TopicPartition, CommittedOffset] = {}
        self.taken: dict[TopicPartition, CommittedOffset] = {}
        self.is_told = 0
        self.wants_to_be_told = False

    @initialize(group=st.dictionaries(Partitions, Offsets))
    def begin(self, group: dict[TopicPartition, CommittedOffset]) -> None:
        self.group = group
        for partition in PARTITIONS:
            self.assigned(partition)

    # -- what is owned -------------------------------------------------------------------------------

    @rule(partition=Partitions)
    def assigned(self, partition: TopicPartition) -> None:
        if partition not in self.marks:
            committed = self.group.get(partition)
            self.ledger.add({partition: committed})
            self.marks[partition] = committed

    @rule(partition=Partitions, moves_on=st.booleans())
    def revoked(self, partition: TopicPartition, moves_on: bool) -> None:
        """Somebody else has it from here on; what is on its way for it is refused, or was taken before."""
        if partition not in self.marks:
            return
        self.ledger.drop([partition])
        del self.marks[partition]
        self.sent.pop(partition, None)
        if moves_on:
            before = self.group.get(partition, CommittedOffset(0))
            self.group[partition] = CommittedOffset(before.offset + 1)

    # -- marks ---------------------------------------------------------------------------------------

    @rule(partition=Partitions, offset=Offsets)
    def mark(self, partition: TopicPartition, offset: CommittedOffset) -> None:
        if partition in self.marks:
            mark = self.marks[partition]
            says_more = mark is not None and offset.offset == mark.offset and offset.metadata not in ("", mark.metadata)
            moves = mark is None or offset.offset > mark.offset or says_more
            assert self._moved(self.ledger.mark(partition, offset), moves)
            self.marks[partition] = offset if moves else mark

    @rule(partition=Partitions, offset=Offsets)
    def reset(self, partition: TopicPartition, offset: CommittedOffset) -> None:
        if partition in self.marks:
            mark = self.marks[partition]
            moves = mark is not None and offset.offset < mark.offset
            assert self._moved(self.ledger.reset(partition, offset), moves)
            self.marks[partition] = offset if moves else mark

    def _moved(self, said: bool, moves: bool) -> bool:
        """Return whether the ledger's result is right, and a waiting caller was notified exactly once."""
        told, self.is_told = self.is_told, 0
        wanted, self.wants_to_be_told = self.wants_to_be_told, self.wants_to_be_told and not moves
        return said == moves and told == (wanted and moves)

    @rule(wanted=st.booleans())
    def notify_next_mark(self, wanted: bool) -> None:
        def told() -> None:
            self.is_told += 1

        self.ledger.notify_next_mark(told if wanted else None)
        self.wants_to_be_told = wanted

    # -- commits -------------------------------------------------------------------------------------

    @precondition(lambda self: not self.sent and not self.taken)
    @rule()
    def commit(self) -> None:
        self.sent = dict(self.ledger.dirty())
        self.ledger.send(self.sent)

    @precondition(lambda self: self.sent)
    @rule(refused=st.sets(Partitions))
    def coordinator_takes_it(self, refused: set[TopicPartition]) -> None:
        self.taken = {tp: offset for tp, offset in self.sent.items() if tp not in refused}
        self.group.update(self.taken)
        self.sent = {}

    @precondition(lambda self: self.taken)
    @rule()
    def answer_comes(self) -> None:
        self.ledger.acknowledge(self.taken)
        self.taken = {}

    @rule()
    def connection_breaks(self) -> None:
        """Whatever was on the wire is no longer: the request before it was taken, or the answer after."""
        self.sent, self.taken = {}, {}

    # -- what must hold ------------------------------------------------------------------------------

    @invariant()
    def marks_are_where_they_were_put(self) -> None:
        assert {tp: self.ledger.marked(tp) for tp in self.marks} == self.marks

    @invariant()
    def what_is_to_be_committed_is_a_mark(self) -> None:
        assert all(self.marks[tp] == offset for tp, offset in self.ledger.dirty().items())

    @invariant()
    def what_is_clean_the_group_has(self) -> None:
        clean = {tp: mark for tp, mark in self.marks.items() if mark is not None and tp not in self.ledger.dirty()}
        assert clean == {tp: self.group[tp] for tp in clean}

    @invariant()
    def what_was_committed_undisturbed_is_clean(self) -> None:
        if not self.sent and not self.taken:
            for partition in self.marks.keys() - self.ledger.dirty().keys():
                assert self.ledger.committed(partition) == self.marks[partition]

    def teardown(self) -> None:
        """A commit that is taken and answered leaves nothing to do."""
        self.connection_breaks()
        self.commit()
        self.group.update(self.sent)
        self.ledger.acknowledge(self.sent)
        assert self.ledger.dirty() == {}
        assert {tp: mark for tp, mark in self.marks.items() if mark is not None}.items() <= self.group.items()


TestLedgerModel = LedgerModel.TestCase
TestLedgerModel.settings = settings(max_examples=200 * SOAK, stateful_step_count=40)
