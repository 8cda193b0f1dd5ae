from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya.arrow import kafka_schema
from sarameya.message_batch import MessageBatch
from sarameya.model import NO_TIMESTAMP, Message, TimestampType

TIME = 1_700_000_000_123


def message(offset=0, timestamp=TIME, key=None, value=None, headers=(), kind=TimestampType.CREATE_TIME) -> Message:
    return Message("orders", 3, offset, timestamp, kind, key, value, headers)


def table(*messages: Message) -> pa.Table:
    result = MessageBatch("orders", 3, messages, messages[-1].offset + 1).to_arrow()
    result.validate(full=True)
    assert result.schema == kafka_schema()
    return result


def test_schema_is_that_of_spark_s_kafka_source():
    assert {field.name: str(field.type) for field in kafka_schema()} == {
        "key": "binary",
        "value": "binary",
        "topic": "string",
        "partition": "int32",
        "offset": "int64",
        "timestamp": "timestamp[us, tz=UTC]",
        "timestampType": "int32",
        "headers": "list<item: struct<key: string not null, value: binary>>",
    }


def test_messages_become_rows():
    rows = table(
        message(5, key=b"k", value=b"\xff\x00", headers=(("h", b"1"), ("h", None))),
        message(9, kind=TimestampType.LOG_APPEND_TIME),
    ).to_pylist()
    assert rows == [
        {
            "key": b"k",
            "value": b"\xff\x00",
            "topic": "orders",
            "partition": 3,
            "offset": 5,
            "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC),
            "timestampType": 0,
            "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
        },
        {
            "key": None,
            "value": None,
            "topic": "orders",
            "partition": 3,
            "offset": 9,
            "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC),
            "timestampType": 1,
            "headers": None,
        },
    ]


@pytest.mark.parametrize(
    ("milliseconds", "microseconds"),
    [
        (NO_TIMESTAMP, None),
        (0, 0),
        (-5, -5000),
        (-62_135_596_800_000, -62_135_596_800_000_000),
        (9_223_372_036_854_775, 9_223_372_036_854_775_000),
        (9_223_372_036_854_776, None),
        (2**63 - 1, None),
        (-(2**63), None),
    ],
)
def test_timestamp_is_microseconds_or_null_where_there_is_none_or_they_cannot_hold_it(milliseconds, microseconds):
    column = table(message(timestamp=milliseconds)).column("timestamp")
    assert column.cast(pa.int64()).to_pylist() == [microseconds]


_headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)


@given(st.lists(_headers, min_size=1, max_size=20))
def test_headers_of_any_shape_are_kept_in_order_and_none_are_null(rows):
    column = table(*(message(n, headers=headers) for n, headers in enumerate(rows))).column("headers").to_pylist()
    expected = [[{"key": key, "value": value} for key, value in headers] or None for headers in rows]
    assert column == expected
