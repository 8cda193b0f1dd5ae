from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

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
def test_timestamp_is_microseconds_or_null(milliseconds, microseconds):
    column = table(message(timestamp=milliseconds)).column("timestamp")
    assert column.cast(pa.int64()).to_pylist() == [microseconds]


_headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)


@given(st.lists(_headers, min_size=1, max_size=20))
def test_headers_keep_their_order_and_none_become_null(rows):
    column = table(*(message(n, headers=headers) for n, headers in enumerate(rows))).column("headers").to_pylist()
    expected = [[{"key": key, "value": value} for key, value in headers] or None for headers in rows]
    assert column == expected


_bytes = st.none() | st.binary(max_size=5)
_messages = st.lists(
    st.builds(
        message,
        offset=st.integers(0, 2**63 - 2),
        timestamp=st.sampled_from([TIME, NO_TIMESTAMP, -5, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1),
        kind=st.sampled_from(TimestampType),
        key=_bytes,
        value=_bytes,
        headers=_headers,
    ),
    min_size=1,
    max_size=20,
)


def row(of: Message) -> dict[str, object]:
    absent = of.timestamp == NO_TIMESTAMP or abs(of.timestamp * 1000) > 2**63 - 1
    return {
        "key": of.key,
        "value": of.value,
        "topic": of.topic,
        "partition": of.partition,
        "offset": of.offset,
        "timestamp": None if absent else of.timestamp * 1000,
        "timestampType": of.timestamp_type,
        "headers": [{"key": key, "value": value} for key, value in of.headers] or None,
    }


def rows(of: pa.Table) -> list[dict[str, object]]:
    """Return the table's rows, with timestamps in microseconds, since Python's dates have a smaller range."""
    at = of.column_names.index("timestamp")
    return of.set_column(at, "timestamp", of.column(at).cast(pa.int64())).to_pylist()


@given(_messages)
def test_any_messages_become_equal_rows(messages):
    assert rows(table(*messages)) == [row(m) for m in messages]


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 5000])
def test_constant_and_null_columns_have_the_batch_length(count):
    messages = [message(n) for n in range(count)]
    assert rows(table(*messages)) == [row(m) for m in messages]


def test_each_table_names_its_own_partition():
    def of(topic, partition):
        return MessageBatch(topic, partition, [replace(message(), topic=topic, partition=partition)], 1).to_arrow()

    tables = [of("orders", 0), of("orders", 1), of("refunds", 0), of("orders", 0)]
    partitions = [(t.column("topic")[0].as_py(), t.column("partition")[0].as_py()) for t in tables]
    assert partitions == [("orders", 0), ("orders", 1), ("refunds", 0), ("orders", 0)]
