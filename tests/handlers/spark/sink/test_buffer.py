from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya_handlers.landing.errors import LostRecordsError
from sarameya_handlers.spark.options import Limits
from sarameya_handlers.spark.sink.buffer import COMBINE_AT, CollectedBatch, PartitionBuffer
from tests.handlers.kit import batch


def buffer(position: int = 0, **limits: float) -> PartitionBuffer:
    return PartitionBuffer(Limits(**{"max_rows": 10, "max_age": 30.0, **limits}), position)


def add(target: PartitionBuffer, first: int, count: int, now: float = 0.0, **more: object) -> None:
    """Add the next batch, from the end of the last one."""
    added = batch(first, count, **{"from_offset": target.read_to, **more})
    target.add(added.to_arrow(), added.from_offset, added.next_offset, now, added.leader_epoch)


def test_empty_buffer_is_never_due() -> None:
    assert not buffer().is_due(1e9)
    assert buffer().deadline == inf


def test_buffer_is_due_at_its_row_limit() -> None:
    target = buffer()
    add(target, 0, 9)
    assert not target.is_due(0)
    add(target, 9, 1)
    assert target.is_due(0)


def test_buffer_is_due_at_its_byte_limit() -> None:
    size = batch(0, 2, value=b"x" * 100).to_arrow().nbytes
    target = buffer(max_bytes=size + 1)
    add(target, 0, 2, value=b"x" * 100)
    assert not target.is_due(0)
    add(target, 2, 1, value=b"x" * 100)
    assert target.is_due(0)


def test_age_counts_from_the_oldest_record() -> None:
    target = buffer()
    add(target, 0, 1, now=5.0)
    add(target, 1, 1, now=20.0)
    assert target.deadline == 35.0
    assert not target.is_due(34.9)
    assert target.is_due(35.0)


def test_age_after_a_cut_counts_from_the_arrival_of_the_rest() -> None:
    target = buffer()
    add(target, 0, 6, now=5.0)
    add(target, 6, 6, now=20.0)
    target.take()
    assert target.rows == 2
    assert target.deadline == 50.0


def test_take_empties_a_buffer_within_its_limits() -> None:
    target = buffer(position=3)
    add(target, 5, 2)
    add(target, 7, 1, next_offset=11)
    taken = target.take()
    assert taken.table["offset"].to_pylist() == [5, 6, 7]
    assert (taken.from_offset, taken.to_offset) == (3, 11)
    assert (target.rows, target.size_bytes, target.deadline) == (0, 0, inf)


def test_take_cuts_a_batch_at_the_row_limit() -> None:
    target = buffer()
    add(target, 0, 25, next_offset=30)
    taken = [target.take() for _ in range(3)]
    assert [(t.from_offset, t.to_offset, t.table.num_rows) for t in taken] == [
        (0, 10, 10),
        (10, 20, 10),
        (20, 30, 5),
    ]


def test_cut_before_a_gap_leaves_the_gap_to_the_second_part() -> None:
    target = buffer(max_rows=2)
    add(target, 0, 2)
    add(target, 7, 2)
    first, second = target.take(), target.take()
    assert (first.to_offset, second.from_offset, second.to_offset) == (2, 2, 9)


def test_take_cuts_a_batch_at_the_byte_limit() -> None:
    whole = batch(0, 8, value=b"x" * 1000).to_arrow()
    target = buffer(max_bytes=whole.slice(0, 3).nbytes)
    add(target, 0, 8, value=b"x" * 1000)
    assert [target.take().table.num_rows for _ in range(3)] == [3, 3, 2]


def test_record_above_the_byte_limit_is_taken_alone() -> None:
    target = buffer(max_bytes=10)
    add(target, 0, 2, value=b"x" * 1000)
    assert [target.take().table.num_rows for _ in range(2)] == [1, 1]


def test_small_batches_are_merged_into_few_tables() -> None:
    target = buffer(max_rows=10**6)
    for n in range(3 * COMBINE_AT + 1):
        add(target, n, 1, now=float(n))
    assert target.deadline == 30.0
    taken = target.take()
    assert taken.table["offset"].to_pylist() == list(range(3 * COMBINE_AT + 1))
    assert taken.table["offset"].num_chunks == 4


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 3), st.integers(0, 50)), min_size=1, max_size=20),
    st.integers(1, 12),
    st.integers(1, 2000),
)
def test_taken_batches_cover_each_record_once_in_order(
    batches: list[tuple[int, int, int]], max_rows: int, max_bytes: int
) -> None:
    target = buffer(max_rows=max_rows, max_bytes=max_bytes)
    offset, added, taken = 0, [], []
    for count, gap, width in batches:
        add(target, offset, count, next_offset=offset + count + gap, value=b"x" * width)
        added += range(offset, offset + count)
        offset += count + gap
        while target.is_due(0.0):
            taken.append(target.take())
    while target.rows:
        taken.append(target.take())
    assert [o for t in taken for o in t.table["offset"].to_pylist()] == added
    assert [t.from_offset for t in taken] == [0, *(t.to_offset for t in taken[:-1])]
    assert taken[-1].to_offset == offset
    assert all(t.table.num_rows <= max_rows for t in taken)
    assert all(t.table.nbytes <= max_bytes or t.table.num_rows == 1 for t in taken)
    assert target.size_bytes == 0


@pytest.mark.parametrize("rows", [1, COMBINE_AT, COMBINE_AT + 1])
def test_size_is_zero_after_everything_is_taken(rows: int) -> None:
    target = buffer(max_rows=10**6)
    for n in range(rows):
        add(target, n, 1)
    assert target.size_bytes > 0
    target.take()
    assert target.size_bytes == 0


def offsets(taken: CollectedBatch) -> list[int]:
    assert taken.table is not None
    return taken.table["offset"].to_pylist()


def test_missing_range_is_taken_alone_in_order() -> None:
    target = buffer()
    add(target, 0, 3)
    add(target, 9, 2, from_offset=7, now=4.0)
    first, missing, last = target.take(), target.take(), target.take()
    assert (offsets(first), first.to_offset) == ([0, 1, 2], 3)
    assert (missing.table, missing.from_offset, missing.to_offset) == (None, 3, 7)
    assert (offsets(last), last.from_offset, last.to_offset) == ([9, 10], 7, 11)
    assert target.is_empty


def test_overlapping_batch_is_refused() -> None:
    target = buffer()
    add(target, 0, 3)
    with pytest.raises(LostRecordsError, match="offset 2 comes after 3"):
        add(target, 2, 3, from_offset=2)


def test_trim_drops_records_landed_by_others() -> None:
    target = buffer()
    add(target, 0, 4)
    add(target, 4, 4)
    target.trim(6)
    assert (target.rows, target.position) == (2, 6)
    target.trim(11)
    assert (target.rows, target.size_bytes, target.position, target.is_empty) == (0, 0, 11, True)
    add(target, 8, 2)
    assert target.is_empty
    add(target, 10, 4)
    taken = target.take()
    assert (offsets(taken), taken.from_offset, taken.to_offset) == ([11, 12, 13], 11, 14)


def test_trim_to_the_taken_offset_changes_nothing() -> None:
    target = buffer()
    add(target, 0, 12)
    target.take()
    target.trim(10)
    assert (target.rows, target.position) == (2, 10)


@pytest.mark.parametrize(("at", "expected"), [(0, [3, 4, 8]), (4, [4, 8]), (5, [8]), (9, [])])
def test_records_since_an_offset_are_returned(at: int, expected: list[int]) -> None:
    target = buffer(position=3)
    add(target, 3, 2)
    add(target, 8, 1, next_offset=10)
    rest = target.take().since(at)
    assert rest is not None
    assert (offsets(rest), rest.from_offset, rest.to_offset) == (expected, max(at, 3), 10)
    assert rest.since(10) is None


def test_leader_epoch_is_that_of_the_last_record() -> None:
    target = buffer()
    target.add(batch(0, 2).to_arrow(), 0, 2, 0.0, 4)
    target.add(batch(2, 10).to_arrow(), 2, 12, 0.0, 5)
    assert [target.take().leader_epoch for _ in range(2)] == [5, 5]


@pytest.mark.parametrize(("rows", "age", "early"), [(4, 0, False), (5, 0, True), (1, 14.9, False), (1, 15, True)])
def test_buffer_may_flush_early_halfway_to_a_limit(rows: int, age: float, early: bool) -> None:
    target = buffer()
    add(target, 0, rows)
    assert target.may_flush_early(age) is early


def test_empty_buffer_does_not_flush_early() -> None:
    assert not buffer().may_flush_early(1e9)
