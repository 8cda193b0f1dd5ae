"""Sample events in JSON, and the table of their columns."""

from __future__ import annotations

import json
import random

import pytest

from bench.common.events import SCHEMA, event, event_table


def test_event_is_json_of_requested_size_with_all_columns() -> None:
    generator = random.Random(1)
    for number in range(300):
        decoded = json.loads(value := event(generator, number, 200))

        assert len(value) == 200
        assert list(decoded) == SCHEMA.names
        assert decoded["sequence"] == number


def test_event_with_too_small_a_size_is_refused() -> None:
    with pytest.raises(ValueError, match="bytes, not 50"):
        event(random.Random(1), 0, 50)


def test_table_has_the_fields_of_the_events_in_order() -> None:
    values = [event(random.Random(seed), seed, 200) for seed in range(3)]
    table = event_table(values)

    assert table.schema == SCHEMA
    assert table["id"].to_pylist() == [json.loads(value)["id"] for value in values]
    assert table["sequence"].to_pylist() == [0, 1, 2]
