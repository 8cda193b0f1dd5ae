"""Records shaped by a real Spark, classic and Connect: text, JSON, Avro and Protobuf with fixed schemas.

Also transforms, partitions, and rows converted to the columns of a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sarameya import HandlerError
from sarameya.registry.client import Registry
from sarameya.registry.options import RegistryOptions
from sarameya_handlers.spark.shaping.decode_options import Decode
from sarameya_handlers.spark.shaping.errors import SchemaMismatchError, ShapeError, TooManyPartitionsError
from sarameya_handlers.spark.shaping.partitions import (
    require_few_partitions,
    require_partition_columns,
    with_event_date,
)
from sarameya_handlers.spark.shaping.row_conversion import conform
from sarameya_handlers.spark.shaping.schemas import compare
from sarameya_handlers.spark.shaping.shaping import BadRecord, Shaping
from tests.integration.lake_stage import EITHER, either
from tests.integration.shaping.stage import Stage, column, descriptors, message

pytestmark = [
    pytest.mark.integration,
    # pyspark leaves sockets open when rows are collected.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

KAFKA = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


@pytest.fixture(scope="module", params=EITHER)
def spark(request: pytest.FixtureRequest) -> Iterator[Any]:
    with either(request, compiles=True) as session:
        yield session


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def reasons(bad: Any) -> dict[int, str]:
    return {one.offset: one.reason for one in bad}


def error_of(frame: Any) -> str:
    """Return the error of computing the frame."""
    with pytest.raises(Exception, match=r".") as raised:
        frame.collect()
    return str(raised.value)


# -- as it is, and text ---------------------------------------------------------------------------------


def test_records_without_options_are_unchanged(spark: Any, stage: Stage) -> None:
    shaping = Shaping()
    frame = shaping.frame(spark, stage.landing([b"a", None, b"\xff"], keys=[b"k", None, None]))
    assert shaping.is_plain
    assert frame.columns == KAFKA
    assert column(frame) == [b"a", None, b"\xff"]
    assert shaping.unreadable(spark, stage.landing([b"\xff"])) == ()


def test_text_is_decoded_and_invalid_utf8_is_reported(spark: Any, stage: Stage) -> None:
    shaping = Shaping(key=Decode(format="string"), value=Decode(format="string"))
    frame = shaping.frame(spark, stage.landing(["ä".encode(), None, b""], keys=[b"k", None, b"l"]))
    assert (column(frame), column(frame, "key")) == (["ä", None, ""], ["k", None, "l"])
    bad = stage.landing([b"a", b"\xffa", b"b"], keys=[b"k", b"k", b"\xc3"])
    assert "the value at offset 101 is no UTF-8" in error_of(shaping.frame(spark, bad))
    assert shaping.unreadable(spark, bad) == [
        BadRecord(101, "value: it cannot be decoded as string"),
        BadRecord(102, "key: it cannot be decoded as string"),
    ]


# -- JSON -----------------------------------------------------------------------------------------------

JSON = Decode(format="json", schema="id bigint, name string, tags array<struct<t: int>>")


def test_json_rows_equal_the_written_objects(spark: Any, stage: Stage) -> None:
    records = [{"id": n, "name": f"ä{n}", "tags": [{"t": n}, {"t": None}]} for n in range(20)]
    values = [json.dumps(record).encode() for record in records]
    frame = Shaping(value=JSON).frame(spark, stage.landing([*values, None, b"null", b' {"more": 1} ']))
    nothing = {"id": None, "name": None, "tags": None}
    assert column(frame) == [*records, None, None, nothing]


def test_json_arrays_and_scalars_are_decoded(spark: Any, stage: Stage) -> None:
    landing = stage.landing([b"[1, 2]", None, b"[]"])
    assert column(Shaping(value=Decode(format="json", schema="array<int>")).frame(spark, landing)) == [[1, 2], None, []]
    landing = stage.landing([b'{"a": 1.5}'])
    made = Shaping(value=Decode(format="json", schema="map<string, double>")).frame(spark, landing)
    assert column(made) == [{"a": 1.5}]


INVALID_JSON = [
    b'{"id": 1.5}',
    b'{"id": "7"}',
    b'{"id": 99999999999999999999}',
    b'{"tags": [{"t": 1}, {"t": "x"}]}',
    b'{"tags": {"t": 1}}',
    b"5",
    b'[{"id": 1}]',
    b'[{"id": 1}, {"id": 2}]',
    b'{"id": 1',
    b'{"id": 1} and more',
    b'{"id": 1}{"id": 2}',
    b'{"id": 1}, {"id": 2}',
    b"",
    b"  ",
    b'{"name": "\xff"}',
    b"\x00\x00\x00\x00\x07{}",
]


def test_invalid_json_is_found_among_valid_records(spark: Any, stage: Stage) -> None:
    """No invalid value becomes null or is cut off silently."""
    good: list[bytes | None] = [b'{"id": 1}', None, b"null"]
    values = [value for bad in INVALID_JSON for value in (*good, bad)]
    shaping = Shaping(value=JSON)
    bad = shaping.unreadable(spark, stage.landing(values))
    assert [one.offset - 100 for one in bad] == [n for n, value in enumerate(values) if value in INVALID_JSON]
    assert all(one.reason.startswith("value: it cannot be decoded as json: ") for one in bad)


@pytest.mark.parametrize(
    "value", [INVALID_JSON[0], INVALID_JSON[3], INVALID_JSON[9], INVALID_JSON[10], INVALID_JSON[11], INVALID_JSON[12]]
)
def test_invalid_json_is_an_error(spark: Any, stage: Stage, value: bytes) -> None:
    assert error_of(Shaping(value=JSON).frame(spark, stage.landing([b'{"id": 1}', value])))


# -- Avro -----------------------------------------------------------------------------------------------

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "tags", "type": {"type": "map", "values": "double"}},
    ],
}


def avro(record: Any, schema: Any = ORDER) -> bytes:
    written = BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), record)
    return written.getvalue()


def test_avro_rows_equal_the_written_records(spark: Any, stage: Stage) -> None:
    records = [
        {"id": n, "note": None if n % 3 else f"it's \\ {n}", "kind": "AB"[n % 2], "tags": {"x": n / 2}}
        for n in range(20)
    ]
    shaping = Shaping(value=Decode(format="avro", schema=json.dumps(ORDER)))
    shaping.check(spark)
    assert column(shaping.frame(spark, stage.landing([*map(avro, records), None]))) == [*records, None]


def test_invalid_avro_is_found_among_valid_records(spark: Any, stage: Stage) -> None:
    good = avro({"id": 1, "note": None, "kind": "A", "tags": {}})
    shaping = Shaping(value=Decode(format="avro", schema=json.dumps(ORDER)))
    landing = stage.landing([good, good[:-1], None, b"", b"\xff" * 20, good])
    assert sorted(reasons(shaping.unreadable(spark, landing))) == [101, 103, 104]
    assert "FAILFAST" in error_of(shaping.frame(spark, landing))


def test_avro_without_a_record_type_is_decoded(spark: Any, stage: Stage) -> None:
    shaping = Shaping(key=Decode(format="avro", schema='"long"'))
    landing = stage.landing([b"v"] * 3, keys=[avro(5, "long"), None, b"\xff"])
    assert reasons(shaping.unreadable(spark, landing)) == {102: "key: it cannot be decoded as avro"}
    assert column(shaping.frame(spark, stage.landing([b"v"], keys=[avro(5, "long")])), "key") == [5]


# -- Protobuf -------------------------------------------------------------------------------------------

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/duration.proto";
message Order {
  enum Kind { UNKNOWN = 0; A = 1; }
  message Item { uint32 count = 1; uint64 weight = 2; bytes label = 3; }
  message Empty {}
  int64 id = 1; string name = 2; optional int32 maybe = 3; Kind kind = 4; repeated string tags = 5;
  map<string, double> prices = 6; repeated Item items = 7; map<int32, Item> by_number = 8;
  google.protobuf.Timestamp at = 9; google.protobuf.StringValue text = 10; google.protobuf.Struct more = 11;
  google.protobuf.Duration took = 12; oneof pay { string card = 13; int64 cash = 14; } Empty empty = 15;
  float f = 16; bool b = 17; sfixed64 s = 18; Order parent = 19;
}
message Line { string text = 1; }
"""

DEFAULTS = {"id": 0, "name": "", "maybe": None, "kind": "UNKNOWN", "tags": [], "prices": {}, "items": [], "b": False}


@pytest.fixture(scope="module")
def proto(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    flat = PROTO.replace(" Order parent = 19;", "")
    return descriptors(tmp_path_factory.mktemp("proto"), shop=flat, tree=PROTO.replace("package shop", "package tree"))


def test_protobuf_rows_equal_the_written_messages(spark: Any, stage: Stage, proto: bytes) -> None:
    order = message(proto, "shop.Order", id=-5, name="ä", maybe=0, kind=1, tags=["a", "b"], prices={"x": 1.5}, cash=0)
    order.items.add(count=2**32 - 1, weight=2**64 - 1, label=b"\xff")
    order.by_number[-7].count = 3
    order.at.FromMicroseconds(-1)
    order.text.value = ""
    order.more.update({"k": [1.0, None]})
    order.took.seconds = 5
    order.empty.SetInParent()
    order.f, order.b, order.s = 0.5, True, -(2**63)
    shaping = Shaping(value=Decode(format="protobuf", schema=proto, message="shop.Order"))
    shaping.check(spark)
    unknown = message(proto, "shop.Order", kind=77).SerializeToString()
    frame = shaping.frame(spark, stage.landing([order.SerializeToString(), None, b"", unknown], keys=[b"k"] * 4))
    assert frame.columns == KAFKA
    assert column(frame, "key") == [b"k"] * 4
    one, tombstone, empty, other = column(frame.selectExpr("offset", "value"))
    assert column(frame.selectExpr("offset", "unix_micros(value.at) as at"), "at") == [-1, None, None, None]
    del one["at"]
    assert one == {
        "id": -5,
        "name": "ä",
        "maybe": 0,
        "kind": "A",
        "tags": ["a", "b"],
        "prices": {"x": 1.5},
        "items": [{"count": 2**32 - 1, "weight": Decimal(2**64 - 1), "label": b"\xff"}],
        "by_number": {-7: {"count": 3, "weight": Decimal(0), "label": b""}},
        "text": "",
        "more": '{"k": [1.0, null]}',
        "took": {"seconds": 5, "nanos": 0},
        "card": None,
        "cash": 0,
        "empty": True,
        "f": 0.5,
        "b": True,
        "s": -(2**63),
    }
    assert tombstone is None
    assert empty | DEFAULTS == empty
    assert {name for name, value in empty.items() if value is None} >= {"at", "text", "card", "cash", "empty", "took"}
    assert other["kind"] == "77"


def test_recursive_message_is_kept_as_json(spark: Any, stage: Stage, proto: bytes) -> None:
    order = message(proto, "tree.Order", id=1)
    order.parent.name = "ä"
    shaping = Shaping(value=Decode(format="protobuf", schema=proto, message="tree.Order"))
    made = column(shaping.frame(spark, stage.landing([order.SerializeToString()])))
    assert json.loads(made[0]) == {"id": "1", "parent": {"name": "ä"}}


def test_invalid_message_is_found_among_valid_records(spark: Any, stage: Stage, proto: bytes) -> None:
    good = message(proto, "shop.Line", text="x" * 50).SerializeToString()
    late = message(proto, "shop.Order", id=1)
    late.at.seconds = 2**62
    values = [good] * 40
    values[3:5] = [good[:-1], b"\xff"]
    values[38] = b"\x0a\x01\xff"  # a string that is not UTF-8
    shaping = Shaping(value=Decode(format="protobuf", schema=proto, message="shop.Line"))
    assert sorted(reasons(shaping.unreadable(spark, stage.landing(values)))) == [103, 104, 138]
    assert "the record at offset 103 is not a shop.Line" in error_of(shaping.frame(spark, stage.landing(values)))
    of_orders = Shaping(value=Decode(format="protobuf", schema=proto, message="shop.Order"))
    landing = stage.landing([b"", late.SerializeToString()])
    assert sorted(reasons(of_orders.unreadable(spark, landing))) == [101]


@pytest.mark.parametrize("name", ["shop.Nothing", "nothing"])
def test_unknown_message_name_is_an_error(spark: Any, proto: bytes, name: str) -> None:
    with pytest.raises(HandlerError, match=f"there is no Protobuf message '{name}' in its schema"):
        Shaping(value=Decode(format="protobuf", schema=proto, message=name)).check(spark)


# -- flatten, transforms --------------------------------------------------------------------------------


def test_flattened_fields_replace_their_value(spark: Any, stage: Stage) -> None:
    shaping = Shaping(value=Decode(format="json", schema="id bigint, `a b` string"), flatten=True)
    frame = shaping.frame(spark, stage.landing([b'{"id": 1, "a b": "x"}', None]))
    assert frame.columns == ["key", "id", "a b", *KAFKA[2:]]
    assert [tuple(row) for row in frame.orderBy("offset").select("id", "a b").collect()] == [(1, "x"), (None, None)]


def test_flattened_fields_named_as_record_columns_are_refused(spark: Any, stage: Stage) -> None:
    shaping = Shaping(value=Decode(format="json", schema="id bigint, Offset bigint, Topic int"), flatten=True)
    with pytest.raises(ShapeError, match=r"two columns of offset, topic: .* Name them yourself, without flatten"):
        shaping.frame(spark, stage.landing([b"{}"]))


def test_value_without_fields_is_not_flattened(spark: Any, stage: Stage) -> None:
    shaping = Shaping(value=Decode(format="json", schema="array<int>"), flatten=True)
    with pytest.raises(ShapeError, match="flatten needs a value with fields, but the value is array<int>"):
        shaping.frame(spark, stage.landing([b"[]"]))


QUERIES = [
    "select value.id * 2 as twice, '{2} it''s' as text from batch where value.id is not null",
    "-- first\nwith few as (select value.id as id from batch) select id * 2 as twice, '{2} it''s' as text from few ;",
    "select b.value.id + c.value.id as twice, '{2} it''s' as text from batch b join batch c using (offset) -- last",
]


@pytest.mark.parametrize("query", QUERIES)
def test_query_computes_rows_from_the_batch(spark: Any, stage: Stage, query: str) -> None:
    shaping = Shaping(value=Decode(format="json", schema="id bigint"), transform_sql=query)
    shaping.check(spark)
    frame = shaping.frame(spark, stage.landing([b'{"id": 1}', b'{"id": 2}']))
    assert sorted(tuple(row) for row in frame.collect()) == [(2, "{2} it's"), (4, "{2} it's")]
    assert not shaping.is_plain


def test_concurrent_queries_do_not_interfere(spark: Any, stage: Stage) -> None:
    """Frames are created before any of them is computed, as for one job; nothing is left in the session."""
    spark.sql("select 'wrong' as value").createOrReplaceTempView("batch")
    shaping = Shaping(value=Decode(format="string"), transform_sql="select value from batch")
    frames = shaping.frames(spark, [stage.landing([b"a"], first=0), stage.landing([b"b"], first=5, topic="other")])
    assert [column(frame) for frame in reversed(frames)] == [["b"], ["a"]]
    assert column(frames[0].union(frames[1])) == ["a", "b"]
    assert [table.name for table in spark.catalog.listTables() if table.isTemporary] == ["batch"]
    spark.catalog.dropTempView("batch")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("selec 1", "ParseException: .PARSE_SYNTAX_ERROR"),
        ("select nope from batch", "AnalysisException: .UNRESOLVED_COLUMN"),
        ("select * from elsewhere", "AnalysisException: .TABLE_OR_VIEW_NOT_FOUND"),
        ("select 1; select 2", "ParseException"),
        ("drop table batch", "ParseException"),
        ("insert into batch select 1", "ParseException"),
    ],
)
def test_invalid_query_is_reported_in_one_line(spark: Any, stage: Stage, query: str, expected: str) -> None:
    with pytest.raises(ShapeError, match=rf"^transform_sql fails: {expected}") as raised:
        Shaping(transform_sql=query).frame(spark, stage.landing([b"a"]))
    assert "\n" not in str(raised.value)
    assert not raised.value.retriable


def test_transform_gets_decoded_rows(spark: Any, stage: Stage) -> None:
    shaping = Shaping(value=Decode(format="string"), transform=lambda batch: batch.selectExpr("upper(value) as value"))
    assert column(shaping.frame(spark, stage.landing([b"a", None]))) == ["A", None]


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (lambda batch: batch.select("nope"), "transform fails: AnalysisException: .UNRESOLVED_COLUMN"),
        (lambda batch: batch.columns[99], "transform fails: IndexError: list index out of range"),
        (lambda batch: batch.columns, "transform must return a DataFrame, not list"),
    ],
)
def test_failing_transform_is_reported_in_one_line(spark: Any, stage: Stage, transform: Any, expected: str) -> None:
    with pytest.raises(ShapeError, match=f"^{expected}") as raised:
        Shaping(transform=transform).frame(spark, stage.landing([b"a"]))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("shaping", "expected"),
    [
        (Shaping(value=Decode(format="json", schema="id bgint")), "decoding fails: .*UNSUPPORTED_DATATYPE"),
        (Shaping(value=Decode(format="avro", schema='{"type": "rec"}')), "decoding fails"),
        (Shaping(value=Decode(format="json", schema="offset int"), flatten=True), "flatten would make two columns"),
        (Shaping(transform_sql="select nope from batch"), "transform_sql fails: .*UNRESOLVED_COLUMN"),
    ],
)
def test_unsupported_shaping_is_refused_before_any_record(spark: Any, shaping: Shaping, expected: str) -> None:
    with pytest.raises(HandlerError, match=f"records cannot be shaped with these options: {expected}"):
        shaping.check(spark)


def test_check_skips_parts_that_need_records(spark: Any) -> None:
    registry = Registry(RegistryOptions(url="http://127.0.0.1:1"))
    for kind in ("json", "avro", "protobuf"):
        decode = Decode(format=kind, framed=True)
        Shaping(value=decode, key=decode, registry=registry, transform_sql="select nope from batch").check(spark)
    Shaping(transform=lambda batch: batch.select("nope")).check(spark)


# -- rows for a table -----------------------------------------------------------------------------------


def test_invalid_days_share_a_partition(spark: Any, stage: Stage) -> None:
    """Negative, 1970, 2099, out of order: only a few partitions, whatever the timestamps are."""
    day = 86_400_000
    timestamps = [-1, -(2**41), 0, 1_700_000_000_000, 4_102_444_799_000, 1_700_000_000_000 - day, 2**45]
    timestamps += [day * n for n in range(40_000, 40_500)]
    landing = stage.landing([b"v"] * len(timestamps), timestamps=timestamps)
    shaping = Shaping(transform=lambda batch: with_event_date(batch, "2020-01-01", "2039-12-31"))
    frame = shaping.frame(spark, landing)
    require_partition_columns(frame, ["event_date", "Partition"])
    require_few_partitions(frame, ["event_date", "partition"], 3)
    counted = {str(row["event_date"]): row["count"] for row in frame.groupBy("event_date").count().collect()}
    assert counted == {"None": len(timestamps) - 2, "2023-11-14": 1, "2023-11-13": 1}


def test_too_many_partitions_are_refused_before_writing(spark: Any, stage: Stage) -> None:
    timestamps = [86_400_000 * n for n in range(-100, 400)]
    shaping = Shaping(transform_sql="select *, date(timestamp) as day from batch")
    frame = shaping.frame(spark, stage.landing([b"v"] * 500, timestamps=timestamps))
    for limit in (500, 1000):
        require_few_partitions(frame, ["day"], limit)
    require_few_partitions(frame, [], 1)
    with pytest.raises(TooManyPartitionsError, match="more than 499 partitions"):
        require_few_partitions(frame, ["day"], 499)
    with pytest.raises(TooManyPartitionsError, match=r"rows of more than 100 partitions by day \(1\d\d\d-\d\d-\d\d, "):
        require_few_partitions(frame, ["day"], 100)


def test_partition_of_an_extreme_timestamp_is_counted(spark: Any, stage: Stage) -> None:
    landing = stage.landing([b"v"] * 2, timestamps=[2**52, -(2**52)])
    frame = Shaping().frame(spark, landing)
    require_few_partitions(frame, ["timestamp"], 2)
    with pytest.raises(TooManyPartitionsError):
        require_few_partitions(frame, ["timestamp"], 1)


@pytest.mark.parametrize(
    ("columns", "expected"), [(["day"], "have no day to partition"), (["headers"], "partitioned by")]
)
def test_unsuitable_partition_column_is_refused(spark: Any, stage: Stage, columns: list[str], expected: str) -> None:
    with pytest.raises(SchemaMismatchError, match=expected):
        require_partition_columns(Shaping().frame(spark, stage.landing([b"v"])), columns)


def test_rows_are_cast_to_the_table_without_loss(spark: Any, stage: Stage) -> None:
    schema = "id int, at struct<x: int, `y z`: array<struct<a: int>>>, m map<string, struct<q: float>>, more string"
    value = {"id": 1, "at": {"x": 2, "y z": [{"a": 3}, None]}, "m": {"k": {"q": 0.5}}, "more": "m"}
    shaping = Shaping(value=Decode(format="json", schema=schema), flatten=True)
    frame = shaping.frame(spark, stage.landing([json.dumps(value).encode(), None]))
    array = ArrayType(StructType([StructField("b", StringType()), StructField("a", LongType())]))
    table = StructType(
        [
            StructField("OFFSET", LongType()),
            StructField("extra", StructType([StructField("n m", IntegerType())])),
            StructField("at", StructType([StructField("y z", array), StructField("X", DoubleType())])),
            StructField("m", MapType(StringType(), StructType([StructField("q", DoubleType())]))),
            StructField("id", LongType()),
            StructField("timestamp", TimestampType()),
        ]
    )
    made = conform(frame, table)
    rest = ["key", "more", *(name for name in KAFKA[2:] if name not in ("offset", "timestamp"))]
    assert made.columns == [*table.names, *rest]
    assert not compare(made.select(*table.names).schema, table)
    one, none = (row.asDict(recursive=True) for row in made.orderBy("offset").select(*table.names[:-1]).collect())
    at = {"y z": [{"b": None, "a": 3}, None], "X": 2.0}
    assert one == {"OFFSET": 100, "extra": None, "at": at, "m": {"k": {"q": 0.5}}, "id": 1}
    assert none == {"OFFSET": 101, "extra": None, "at": None, "m": None, "id": None}
    same = conform(made, made.schema)
    assert same is made
