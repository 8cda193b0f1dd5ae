"""Arrow counts the rows of each span like a count one by one, in any order and with any batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya_handlers.audit.facts import BEYOND, Count, Counts, Span
from sarameya_handlers.audit.verify.arrow_counting import count_batches
from sarameya_handlers.audit.verify.spans import END, spans_of
from tests.handlers.audit.kit import Row, World, count_rows, worlds

SPANS = (Span("orders", 0, 5, 9, "warehouse", 1), Span("orders", 0, 9, END, "warehouse", BEYOND))


def table(rows: list[Row]) -> pa.Table:
    types = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}
    return pa.table({name: pa.array([row[n] for row in rows], kind) for n, (name, kind) in enumerate(types.items())})


rows = st.lists(
    st.tuples(
        st.sampled_from(["orders", "payments", None]),
        st.sampled_from([0, 1, 2, None]),
        st.one_of(st.none(), st.integers(0, 40), st.sampled_from([65_535, 65_536, 65_537, 2**40, END - 1])),
    ),
    max_size=60,
)


@given(world=worlds(), others=rows, data=st.data())
def test_counts_equal_a_count_one_by_one(world: World, others: list[Row], data: Any) -> None:
    spans = spans_of(world.facts().chains, forgets=world.forgets).spans
    every = data.draw(st.permutations([*world.rows, *others]))
    batches = table(every).to_batches(max_chunksize=data.draw(st.integers(1, 30)))
    assert count_batches(batches, spans) == count_rows(every, spans)


def test_offsets_at_ends_of_blocks_and_batches_are_distinct() -> None:
    offsets = [65_534, 65_535, 65_536, 65_537, 131_071, 131_072]
    one = table([("orders", 0, n) for n in offsets]).to_batches()
    two = table([("orders", 0, 65_536), ("orders", 0, 65_538)]).to_batches()
    found = count_batches([*one, *two], SPANS)
    assert found == Counts({SPANS[1]: Count(8, 7, 65_534, 131_072)}, [])


def test_dictionary_topics_and_integers_of_any_width_are_counted() -> None:
    batch = pa.record_batch(
        {
            "topic": pa.array(["orders", "orders"]).dictionary_encode(),
            "partition": pa.array([0, 0], pa.int64()),
            "offset": pa.array([5, 8], pa.int32()),
        }
    )
    assert count_batches([batch], SPANS) == Counts({SPANS[0]: Count(2, 2, 5, 8)}, [])


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"value": [1]}, "there is no column 'topic', 'partition', 'offset'"),
        ({"topic": ["a"], "partition": [1]}, "there is no column 'offset'"),
        ({"topic": ["a"], "partition": [1], "offset": ["1"]}, "wrong type of column 'offset'"),
    ],
)
def test_rows_that_do_not_identify_records_are_not_counted(columns: dict[str, list[Any]], problem: str) -> None:
    assert count_batches(pa.table(columns).to_batches(), SPANS) == (f"rows do not identify their records: {problem}")


def test_no_rows_give_no_counts() -> None:
    assert count_batches([], SPANS) == count_batches(table([]).to_batches(), SPANS) == Counts({}, [])
