"""The offset ledger and the group that stores its commits: marks, resets, commits with late or lost responses.

The rule: no mark is forgotten. If the ledger has nothing left to commit, the group has the mark.
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
        self.stored: dict[TopicPartition, CommittedOffset] = {}
        self.notifications = 0
        self.is_waiting = False

    @initialize(group=st.dictionaries(Partitions, Offsets))
    def begin(self, group: dict[TopicPartition, CommittedOffset]) -> None:
        self.group = group
        for partition in PARTITIONS:
            self.assigned(partition)

    # -- owned partitions -------------------------------------------------------------------------------

    @rule(partition=Partitions)
    def assigned(self, partition: TopicPartition) -> None:
        if partition not in self.marks:
            committed = self.group.get(partition)
            self.ledger.add({partition: committed})
            self.marks[partition] = committed

    @rule(partition=Partitions, moves_on=st.booleans())
    def revoked(self, partition: TopicPartition, moves_on: bool) -> None:
        """Revoke a partition, which another member may process. Its commit under way is refused, or was stored."""
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
            has_new_metadata = (
                mark is not None and offset.offset == mark.offset and offset.metadata not in ("", mark.metadata)
            )
            moves = mark is None or offset.offset > mark.offset or has_new_metadata
            assert self._moved(self.ledger.mark(partition, offset), moves)
            self.marks[partition] = offset if moves else mark

    @rule(partition=Partitions, offset=Offsets)
    def reset(self, partition: TopicPartition, offset: CommittedOffset) -> None:
        if partition in self.marks:
            mark = self.marks[partition]
            moves = mark is not None and offset.offset < mark.offset
            assert self._moved(self.ledger.reset(partition, offset), moves)
            self.marks[partition] = offset if moves else mark

    def _moved(self, result: bool, moves: bool) -> bool:
        """Return whether the ledger's result is right, and a waiting caller was notified exactly once."""
        notified, self.notifications = self.notifications, 0
        waited, self.is_waiting = self.is_waiting, self.is_waiting and not moves
        return result == moves and notified == (waited and moves)

    @rule(wanted=st.booleans())
    def notify_next_mark(self, wanted: bool) -> None:
        def notify() -> None:
            self.notifications += 1

        self.ledger.notify_next_mark(notify if wanted else None)
        self.is_waiting = wanted

    # -- commits -------------------------------------------------------------------------------------

    @precondition(lambda self: not self.sent and not self.stored)
    @rule()
    def commit(self) -> None:
        self.sent = dict(self.ledger.dirty())
        self.ledger.send(self.sent)

    @precondition(lambda self: self.sent)
    @rule(refused=st.sets(Partitions))
    def coordinator_stores_commit(self, refused: set[TopicPartition]) -> None:
        self.stored = {tp: offset for tp, offset in self.sent.items() if tp not in refused}
        self.group.update(self.stored)
        self.sent = {}

    @precondition(lambda self: self.stored)
    @rule()
    def response_arrives(self) -> None:
        self.ledger.acknowledge(self.stored)
        self.stored = {}

    @rule()
    def connection_breaks(self) -> None:
        """Lose a request that is not stored yet, or the response to a stored one."""
        self.sent, self.stored = {}, {}

    # -- invariants ------------------------------------------------------------------------------

    @invariant()
    def marks_are_kept(self) -> None:
        assert {tp: self.ledger.marked(tp) for tp in self.marks} == self.marks

    @invariant()
    def dirty_offsets_are_marks(self) -> None:
        assert all(self.marks[tp] == offset for tp, offset in self.ledger.dirty().items())

    @invariant()
    def group_has_all_clean_marks(self) -> None:
        clean = {tp: mark for tp, mark in self.marks.items() if mark is not None and tp not in self.ledger.dirty()}
        assert clean == {tp: self.group[tp] for tp in clean}

    @invariant()
    def clean_marks_are_committed_offsets(self) -> None:
        if not self.sent and not self.stored:
            for partition in self.marks.keys() - self.ledger.dirty().keys():
                assert self.ledger.committed(partition) == self.marks[partition]

    def teardown(self) -> None:
        """Check that a stored and acknowledged commit leaves nothing to commit."""
        self.connection_breaks()
        self.commit()
        self.group.update(self.sent)
        self.ledger.acknowledge(self.sent)
        assert self.ledger.dirty() == {}
        assert {tp: mark for tp, mark in self.marks.items() if mark is not None}.items() <= self.group.items()


TestLedgerModel = LedgerModel.TestCase
TestLedgerModel.settings = settings(max_examples=200 * SOAK, stateful_step_count=40)
