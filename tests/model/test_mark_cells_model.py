"""Marks of messages through their cells, compared with the same marks through `OffsetLedger.mark`.

Two ledgers get the same marks, resets, moved positions, commits and lost topics. One of them is marked as handlers mark
(`mark_message`, which mostly stores into a cell), the other without cells. They are compared only now and then,
since a comparison closes the cells.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from sarameya.group.offsets.marks import Marks
from sarameya.model import CommittedOffset, Message, TimestampType, TopicPartition
from sarameya.protocol.offset_ledger import OffsetLedger

SOAK = int(os.environ.get("SARAMEYA_SOAK", "1"))

PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)]

Partitions = st.sampled_from(PARTITIONS)
Offsets = st.integers(0, 9)
Epochs = st.integers(-1, 2)
Metadata = st.sampled_from(["", "", "note"])


class _Marks(Marks):
    def __init__(self, *, has_cells: bool) -> None:
        super().__init__(OffsetLedger())
        self.ledger = self._ledger
        self.notified = 0
        self._has_cells = has_cells

    def mark(self, message: Message, metadata: str) -> str:
        try:
            if self._has_cells:
                self.mark_message(message, metadata)
            else:
                self._mark(message.topic_partition, message.offset + 1, metadata, message.leader_epoch)
        except ValueError as error:
            return str(error)
        return ""

    def notify(self) -> None:
        self.notified += 1

    def _not_claimed(self, partition: TopicPartition) -> ValueError:
        return ValueError(f"{partition} is not claimed")


class MarkCellsModel(RuleBasedStateMachine):
    """Two ledgers with the same history."""

    def __init__(self) -> None:
        super().__init__()
        self.both = (_Marks(has_cells=True), _Marks(has_cells=False))
        self.reached: dict[TopicPartition, int | None] = {}
        self.sent: dict[TopicPartition, CommittedOffset] = {}
        self.partitions: set[TopicPartition] = set()
        self.owned(PARTITIONS[0], None)
        self.owned(PARTITIONS[1], 3)

    def _same(self, call: Callable[[_Marks], object]) -> None:
        with_cells, without = map(call, self.both)
        assert with_cells == without

    @rule(partition=Partitions, offset=st.none() | Offsets)
    def owned(self, partition: TopicPartition, offset: int | None) -> None:
        self.partitions.add(partition)
        for marks in self.both:
            marks.ledger.add({partition: None if offset is None else CommittedOffset(offset, "kept")})

    @rule(partition=Partitions)
    def revoked(self, partition: TopicPartition) -> None:
        self.partitions.discard(partition)
        for marks in self.both:
            marks.ledger.drop([partition])

    @rule(partition=Partitions, first=Offsets, count=st.integers(1, 4), epoch=Epochs, metadata=Metadata)
    def mark(self, partition: TopicPartition, first: int, count: int, epoch: int, metadata: str) -> None:
        for offset in range(first, first + count):
            message = Message(*partition, offset, 0, TimestampType.CREATE_TIME, None, None, (), epoch)
            self._same(lambda marks, message=message: marks.mark(message, metadata))  # type: ignore[misc]
        self._same(lambda marks: marks.notified)

    @rule(partition=Partitions, offset=Offsets)
    def reset(self, partition: TopicPartition, offset: int) -> None:
        if partition in self.partitions:
            self._same(lambda marks: marks.ledger.reset(partition, CommittedOffset(offset)))

    @rule(partition=Partitions, before=Offsets, after=Offsets, is_first=st.booleans())
    def position_moved(self, partition: TopicPartition, before: int, after: int, is_first: bool) -> None:
        if partition in self.partitions:
            self.reached[partition] = None
            since = lambda: self.reached[partition]  # noqa: E731 - the same callable for both
            self._same(
                lambda marks: marks.ledger.position_moved(
                    partition, before, after, is_first=is_first, position_since=since
                )
            )

    @rule(partition=Partitions, reached=Offsets)
    def handed_out(self, partition: TopicPartition, reached: int) -> None:
        self.reached[partition] = reached

    @rule(partition=Partitions)
    def note(self, partition: TopicPartition) -> None:
        if partition in self.partitions:
            for marks in self.both:
                marks.ledger.note(partition)

    @rule(partition=Partitions)
    def topic_recreated(self, partition: TopicPartition) -> None:
        for marks in self.both:
            marks.ledger.topic_recreated(partition)

    @rule(wanted=st.booleans())
    def notify_next_mark(self, wanted: bool) -> None:
        for marks in self.both:
            marks.ledger.notify_next_mark(marks.notify if wanted else None)

    @rule()
    def commit(self) -> None:
        self._same(lambda marks: marks.ledger.dirty())
        self.sent = dict(self.both[0].ledger.dirty())
        for marks in self.both:
            marks.ledger.send(self.sent)

    @rule()
    def acknowledge(self) -> None:
        for marks in self.both:
            marks.ledger.acknowledge(self.sent)

    @rule(partition=Partitions)
    def known(self, partition: TopicPartition) -> None:
        self._same(lambda marks: marks.ledger.known(partition))

    def teardown(self) -> None:
        self._same(lambda marks: marks.ledger.dirty())
        self._same(lambda marks: [marks.ledger.known(partition) for partition in PARTITIONS])
        self._same(lambda marks: marks.ledger.recreated)


TestMarkCellsModel = MarkCellsModel.TestCase
TestMarkCellsModel.settings = settings(max_examples=300 * SOAK, stateful_step_count=40)
