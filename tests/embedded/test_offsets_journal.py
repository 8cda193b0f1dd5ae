"""`__consumer_offsets` as a log: writing, reading, and compaction."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya.embedded.groups.model.stored import GroupImage, GroupRecord, StoredOffset
from sarameya.embedded.log.partition_log import PartitionLog
from sarameya.embedded.offsets_topic.offsets_journal import OffsetsJournal, read_groups, superseded
from sarameya.embedded.offsets_topic.offsets_records import group_key, group_value, offset_key, offset_value
from sarameya.embedded.replicas import Replicas
from sarameya.embedded.topics import EmbeddedPartition
from sarameya.model import CommittedOffset, TopicPartition
from sarameya.protocol.records.batch_codec import build, decode, split

OFFSETS = TopicPartition("__consumer_offsets", 0)
ORDERS, OTHERS = TopicPartition("orders", 3), TopicPartition("orders", 4)
EMPTY = GroupRecord(7, "consumer", None, None, (), 1.0)


def commit(offset: int) -> StoredOffset:
    return StoredOffset(CommittedOffset(offset), commit_time=1.0)


def written(*changes: Callable[[OffsetsJournal], None]) -> PartitionLog:
    """Return the log after these changes."""
    partition = EmbeddedPartition(uuid.UUID(int=1), PartitionLog(OFFSETS), Replicas([0], up=[0]))
    journal = OffsetsJournal(lambda group: partition, lambda p, batch: p.log.append(batch), lambda: 1.5)
    for change in changes:
        change(journal)
    return partition.log


def records(log: PartitionLog) -> list[list[tuple[bytes | None, bytes | None, int]]]:
    """Return key, value and timestamp of each record, batch by batch."""
    return [
        [(m.key, m.value, m.timestamp) for raw in split(data, ORDERS, 0) for m in decode(raw, ORDERS)]
        for data in log.batches()
    ]


def test_commit_of_several_partitions_is_one_batch() -> None:
    log = written(lambda journal: journal.store_offsets("g", {ORDERS: commit(1), OTHERS: None}))
    assert records(log) == [
        [
            (offset_key("g", ORDERS), offset_value(commit(1)), 1500),
            (offset_key("g", OTHERS), None, 1500),
        ]
    ]


def test_group_and_its_tombstone_are_a_record_each() -> None:
    log = written(lambda journal: journal.store_group("g", EMPTY), lambda journal: journal.store_group("g", None))
    assert records(log) == [[(group_key("g"), group_value(EMPTY), 1500)], [(group_key("g"), None, 1500)]]


def test_empty_change_writes_nothing() -> None:
    assert records(written(lambda journal: journal.store_offsets("g", {}))) == []


def test_groups_are_read_from_their_last_records() -> None:
    log = written(
        lambda journal: journal.store_group("g", EMPTY),
        lambda journal: journal.store_offsets("g", {ORDERS: commit(1), OTHERS: commit(1)}),
        lambda journal: journal.store_offsets("g", {ORDERS: commit(2), OTHERS: None}),
        lambda journal: journal.store_offsets("simple", {ORDERS: commit(3)}),
        lambda journal: journal.store_group("gone", EMPTY),
        lambda journal: journal.store_offsets("gone", {ORDERS: commit(4)}),
        lambda journal: journal.store_offsets("gone", {ORDERS: None}),
        lambda journal: journal.store_group("gone", None),
    )
    assert read_groups(OFFSETS, log.batches()) == [
        GroupImage("g", EMPTY, {ORDERS: commit(2)}),
        GroupImage("simple", None, {ORDERS: commit(3)}),
    ]


def test_unreadable_record_is_skipped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    log = written(lambda journal: journal.store_group("g", EMPTY))
    log.append(build([(0, b"?", b"", ()), (0, group_key("h"), group_value(EMPTY), ())]))
    broken = bytearray(build([(0, group_key("i"), group_value(EMPTY), ())], base_offset=3))
    broken[-1] ^= 1
    log.append_raw(bytes(broken), 3)
    with caplog.at_level(logging.WARNING):
        assert [image.group_id for image in read_groups(OFFSETS, log.batches())] == ["g", "h"]
    assert "skipped the record at offset 1" in caplog.text
    assert "skipped a batch" in caplog.text


Change = st.tuples(
    st.sampled_from("gh"), st.sets(st.sampled_from([ORDERS, OTHERS])), st.one_of(st.none(), st.integers(0, 9))
)


@given(st.lists(Change, max_size=30))
def test_compacted_log_holds_the_same_groups(
    changes: list[tuple[str, set[TopicPartition], int | None]],
) -> None:
    def change(group_id: str, partitions: set[TopicPartition], offset: int | None) -> Callable[[OffsetsJournal], None]:
        if not partitions:
            return lambda journal: journal.store_group(group_id, None if offset is None else EMPTY)
        stored = None if offset is None else commit(offset)
        return lambda journal: journal.store_offsets(group_id, dict.fromkeys(sorted(partitions), stored))

    log = written(*(change(*fields) for fields in changes))

    def held() -> dict[str, GroupImage]:
        return {image.group_id: image for image in read_groups(OFFSETS, log.batches())}

    before, end = held(), log.end_offset
    log.remove_batches(superseded(OFFSETS, log.batches()))
    assert (held(), log.end_offset) == (before, end)
    keys = [{key for key, _, _ in batch} for batch in records(log)]
    assert len(keys) <= 6, "a batch for each key at most"
