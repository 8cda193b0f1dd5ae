"""Records with schema ids: Confluent's serializers write them, Apache Kafka stores them, Spark reads them.

A registry process has the schemas. The rows must equal the objects that were serialized.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trio
from confluent_kafka.schema_registry import Schema as RegisteredSchema
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from sarameya import Consumer, RegistryError, TopicPartition
from sarameya_handlers.spark.shaping.errors import ShapeError
from sarameya_handlers.spark.shaping.formats.protobuf_columns import message_class
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Landing
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.producing import send
from tests.integration.real_registry import RealRegistry
from tests.integration.shaping.stage import Stage, column, descriptors
from tests.integration.warm_spark import warm_spark

pytestmark = [
    pytest.mark.integration,
    # pyspark leaves sockets open when rows are collected.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

DEADLINE = 60.0

V1 = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}
V2 = {**V1, "fields": [*V1["fields"], {"name": "price", "type": "double", "default": 0.5}]}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with warm_spark({"spark.sql.shuffle.partitions": "2"}) as session:
        yield session


@pytest.fixture
def registry(real_registry: RealRegistry) -> RealRegistry:
    return real_registry


@pytest.fixture
def client(registry: RealRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


class Topic:
    """A topic of Kafka with one partition. Its records are read back from Kafka, and then staged."""

    def __init__(self, kafka: RealKafka, name: str, stage: Stage) -> None:
        self.name = kafka.create_topic(name, 1)
        self._kafka = kafka
        self._stage = stage
        self._sent = 0

    async def landing(self, values: Sequence[bytes | None], keys: Sequence[bytes | None] = ()) -> Landing:
        """Produce these records, read them back, and stage them."""
        records = [
            {"value": value, "key": key} for value, key in zip(values, keys or [b"k"] * len(values), strict=True)
        ]
        await trio.to_thread.run_sync(send, self._kafka, self.name, records)
        first, self._sent = self._sent, self._sent + len(records)
        return self._stage.staged(await self._read(first), self.name, first)

    async def _read(self, first: int) -> pa.Table:
        tables: list[pa.Table] = []
        with trio.fail_after(DEADLINE):
            async with (
                Consumer(self._kafka.bootstrap_servers) as consumer,
                consumer.consume_partitions({TopicPartition(self.name, 0): first}) as claims,
            ):
                batches = claims[TopicPartition(self.name, 0)].batches()
                while sum(table.num_rows for table in tables) < self._sent - first:
                    tables.append((await anext(batches)).to_arrow())
        return pa.concat_tables(tables)

    def context(self, field: str = MessageField.VALUE) -> SerializationContext:
        return SerializationContext(self.name, field)


@pytest.fixture
def new_topic(real_kafka: RealKafka, tmp_path: Path) -> Callable[[str], Topic]:
    return lambda name: Topic(real_kafka, name, Stage(tmp_path))


def shaping(registry: RealRegistry, kind: str = "avro", column: str = "value", **more: Any) -> Shaping:
    return Shaping.from_options({f"{column}_format": kind, "registry": {"url": registry.url}, **more})


def avro(client: SchemaRegistryClient, schema: Any) -> AvroSerializer:
    return AvroSerializer(client, json.dumps(schema))


async def test_mixed_avro_versions_have_the_latest_columns(
    spark: SparkSession, registry: RealRegistry, client: SchemaRegistryClient, new_topic: Callable[[str], Topic]
) -> None:
    topic = new_topic("avro-versions")
    old = [{"id": n, "note": None if n % 2 else f"ä{n}"} for n in range(20)]
    new = [{"id": 100 + n, "note": None, "price": n / 4} for n in range(20)]
    shape = shaping(registry)
    one = avro(client, V1)
    first = await topic.landing([one(record, topic.context()) for record in old])
    assert column(shape.frame(spark, first)) == old
    two = avro(client, V2)
    values = [
        value
        for before, after in zip(old, new, strict=True)
        for value in (one(before, topic.context()), two(after, topic.context()))
    ]
    mixed = await topic.landing([*values, None])
    read = [row for pair in zip(old, new, strict=True) for row in ({**pair[0], "price": 0.5}, pair[1])]
    assert column(shape.frame(spark, mixed)) == [*read, None]
    # From now on batches of the first version have the new columns too: a table keeps its columns.
    frames = shape.frames(spark, [first, mixed])
    assert frames[0].schema == frames[1].schema
    assert column(frames[0]) == [{**record, "price": 0.5} for record in old]


async def test_schema_version_can_be_pinned(
    spark: SparkSession, registry: RealRegistry, client: SchemaRegistryClient, new_topic: Callable[[str], Topic]
) -> None:
    topic = new_topic("avro-pinned")
    avro(client, V1)({"id": 1, "note": None}, topic.context())
    value = avro(client, V2)({"id": 2, "note": None, "price": 1.0}, topic.context())
    landing = await topic.landing([value])
    by_version = shaping(registry, value_subject="avro-pinned-value", value_version=1)
    assert column(by_version.frame(spark, landing)) == [{"id": 2, "note": None}]
    by_schema = shaping(registry, value_schema=json.dumps(V1))
    assert column(by_schema.frame(spark, landing)) == [{"id": 2, "note": None}]


async def test_avro_schema_is_read_with_its_references(
    spark: SparkSession, registry: RealRegistry, client: SchemaRegistryClient, new_topic: Callable[[str], Topic]
) -> None:
    topic = new_topic("avro-references")
    address = {"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": "city", "type": "string"}]}
    client.register_schema("address", RegisteredSchema(json.dumps(address), "AVRO"))
    fields = [{"name": "home", "type": "shop.Address"}, {"name": "work", "type": ["null", "shop.Address"]}]
    person = {"type": "record", "name": "Person", "namespace": "shop", "fields": fields}
    schema = RegisteredSchema(json.dumps(person), "AVRO", [SchemaReference("shop.Address", "address", 1)])
    record = {"home": {"city": "a"}, "work": {"city": "b"}}
    landing = await topic.landing([AvroSerializer(client, schema)(record, topic.context())])
    assert column(shaping(registry).frame(spark, landing)) == [record]


async def test_keys_are_decoded_by_their_own_subject(
    spark: SparkSession, registry: RealRegistry, client: SchemaRegistryClient, new_topic: Callable[[str], Topic]
) -> None:
    topic = new_topic("avro-keys")
    key = AvroSerializer(client, '"long"')(5, topic.context(MessageField.KEY))
    shape = shaping(registry, column="key", value_format="string")
    frame = shape.frame(spark, await topic.landing([b"v", b"w"], [key, None]))
    assert (column(frame, "key"), column(frame)) == ([5, None], ["v", "w"])


async def test_json_rows_of_any_version_equal_the_objects(
    spark: SparkSession, registry: RealRegistry, client: SchemaRegistryClient, new_topic: Callable[[str], Topic]
) -> None:
    topic = new_topic("json")
    one = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}
    more = {"price": {"type": "number"}, "tags": {"type": "array", "items": {"type": "string"}}}
    two = {**one, "properties": {**one["properties"], **more}}
    settings: Mapping[str, Any] = {"auto.register.schemas": True}
    old = JSONSerializer(json.dumps(one), client, conf=settings)({"id": 1}, topic.context())
    record = {"id": 2, "price": 1.5, "tags": ["ä"]}
    new = JSONSerializer(json.dumps(two), client, conf=settings)(record, topic.context())
    landing = await topic.landing([old, new, None])
    shape = shaping(registry, "json")
    assert column(shape.frame(spark, landing)) == [{"id": 1, "price": None, "tags": None}, record, None]
    given = shaping(registry, "json", value_schema="id bigint")
    assert column(given.frame(spark, landing)) == [{"id": 1}, {"id": 2}, None]


PROTO = """
syntax = "proto3";
package shop;
import "base/money.proto";
import "google/protobuf/timestamp.proto";
message Other { string text = 1; }
message Order {
  message Line { int32 count = 1; }
  int64 id = 1; base.Money price = 2; repeated Line lines = 3; google.protobuf.Timestamp at = 4; NEW
}
"""
MONEY = 'syntax = "proto3"; package base; message Money { int64 units = 1; string currency = 2; }'


def orders(directory: Path, new: str = "") -> bytes:
    directory.joinpath("base").mkdir(parents=True)
    directory.joinpath("base/money.proto").write_text(MONEY)
    return descriptors(directory, shop=PROTO.replace("NEW", new))


def protobuf(client: SchemaRegistryClient, descriptor_set: bytes, name: str) -> tuple[Any, ProtobufSerializer]:
    made = message_class(descriptor_set, name)
    return made, ProtobufSerializer(made, client, {"use.deprecated.format": False})


async def test_protobuf_rows_of_any_version_equal_the_messages(
    spark: SparkSession,
    registry: RealRegistry,
    client: SchemaRegistryClient,
    new_topic: Callable[[str], Topic],
    tmp_path: Path,
) -> None:
    """The serializer registers descriptors, in base64, and the files that they import as references."""
    topic = new_topic("protobuf")
    order, write = protobuf(client, orders(tmp_path / "1"), "shop.Order")
    old = order(id=1, price={"units": 5, "currency": "€"}, lines=[{"count": 1}, {}])
    old_value = write(old, topic.context())
    order, write = protobuf(client, orders(tmp_path / "2", "optional string note = 5;"), "shop.Order")
    new_value = write(order(id=2, note="ä", at={"seconds": 5}), topic.context())
    landing = await topic.landing([old_value, new_value, None])
    frame = shaping(registry, "protobuf", value_message="shop.Order").frame(spark, landing)
    assert column(frame.selectExpr("offset", "unix_micros(value.at) as at"), "at") == [None, 5_000_000, None]
    made = column(frame)
    del made[1]["at"]
    assert made == [
        {
            "id": 1,
            "price": {"units": 5, "currency": "€"},
            "lines": [{"count": 1}, {"count": 0}],
            "at": None,
            "note": None,
        },
        {"id": 2, "price": None, "lines": [], "note": "ä"},
        None,
    ]


async def test_protobuf_schema_file_is_compiled_with_nested_messages(
    spark: SparkSession,
    registry: RealRegistry,
    client: SchemaRegistryClient,
    new_topic: Callable[[str], Topic],
    tmp_path: Path,
) -> None:
    topic = new_topic("protobuf-files")
    client.register_schema("money", RegisteredSchema(MONEY, "PROTOBUF"))
    text = PROTO.replace("NEW", "")
    schema = RegisteredSchema(text, "PROTOBUF", [SchemaReference("base/money.proto", "money", 1)])
    header = b"\x00" + client.register_schema("protobuf-files-value", schema).to_bytes(4, "big")
    line = message_class(orders(tmp_path / "made"), "shop.Order.Line")(count=7).SerializeToString()
    # The serializer writes the same path. It registers no .proto files, so the test has registered the schema.
    made, write = protobuf(client, orders(tmp_path / "path"), "shop.Order.Line")
    path = write(made(), topic.context())[5:]
    assert path == b"\x04\x02\x00"
    landing = await topic.landing([header + path + line, header + b"\x00" + b"", header + b"\x02\x12"])
    shape = shaping(registry, "protobuf", value_message="shop.Order.Line")
    assert [(bad.offset, bad.reason) for bad in shape.unreadable(spark, landing)] == [
        (1, "value: it is shop.Other, not shop.Order.Line"),
        (
            2,
            "value: it is message [9] of schema 7, not shop.Order.Line".replace(
                "7", str(int.from_bytes(header, "big"))
            ),
        ),
    ]
    landing = await topic.landing([header + path + line])
    assert column(shape.frame(spark, landing)) == [{"count": 7}]


async def test_bad_records_are_reported_and_the_rest_is_decoded(
    spark: SparkSession, registry: RealRegistry, client: SchemaRegistryClient, new_topic: Callable[[str], Topic]
) -> None:
    """The bad records, and one with a schema that does not fit the subject's, are in the middle of a landing."""
    topic = new_topic("avro-poison")
    good = avro(client, V1)({"id": 1, "note": None}, topic.context())
    foreign = {"type": "record", "name": "Other", "fields": [{"name": "x", "type": "string"}]}
    strange = AvroSerializer(client, json.dumps(foreign), conf={"subject.name.strategy": lambda *_: "elsewhere"})
    other = strange({"x": "y"}, topic.context())
    in_json = RegisteredSchema('{"type": "object", "properties": {"x": {"type": "integer"}}}', "JSON")
    as_json = client.register_schema("as-json", in_json).to_bytes(4, "big")
    bad = [
        b"plain",
        b"",
        b"\x00\x00",
        b"\x00\x7f\xff\xff\xff\x02\x00",
        b"\x00\xff\xff\xff\xff\x02\x00",
        b"\x00" + as_json + b"{}",
        good[:5],
        other,
    ]
    values = [good, None, *(value for one in bad for value in (one, good))]
    shape = shaping(registry)
    landing = await topic.landing(values)
    found = {one.offset: one.reason for one in shape.unreadable(spark, landing)}
    assert list(found) == [2, 4, 6, 8, 10, 12, 14, 16]
    reasons = [reason.replace(registry.url, "URL") for reason in found.values()]
    assert reasons == [
        "value: it has no schema registry header: its first byte is 0x70, not 0x00",
        "value: it ends within its schema registry header, after 0 bytes",
        "value: it ends within its schema registry header, after 2 bytes",
        "value: its schema 2147483647 is unknown to Registry(URL)",
        "value: its header has the schema id -1, which no schema has",
        f"value: its schema {int.from_bytes(as_json, 'big')} is JSON, not AVRO",
        f"value: it cannot be decoded as avro, written with schema {int.from_bytes(good[1:5], 'big')}",
        f"value: it cannot be decoded as avro, written with schema {int.from_bytes(other[1:5], 'big')}",
    ]
    with pytest.raises(Exception, match="the value at offset 2 does not begin with the id of a known schema"):
        shape.frame(spark, landing).filter("offset < 3").collect()
    rest = [value for offset, value in enumerate(values) if offset not in found]
    assert column(shape.frame(spark, await topic.landing(rest))) == [
        None if value is None else {"id": 1, "note": None} for value in rest
    ]


async def test_topic_without_a_subject_stops_with_advice(
    spark: SparkSession, registry: RealRegistry, client: SchemaRegistryClient, new_topic: Callable[[str], Topic]
) -> None:
    topic = new_topic("avro-no-subject")
    write = AvroSerializer(client, json.dumps(V1), conf={"subject.name.strategy": lambda *_: "by-record"})
    landing = await topic.landing([write({"id": 1, "note": None}, topic.context())])
    with pytest.raises(RegistryError, match="no version latest of subject 'avro-no-subject-value'") as raised:
        shaping(registry).frame(spark, landing)
    assert not raised.value.retriable
    named = shaping(registry, value_subject="by-record")
    assert column(named.frame(spark, landing)) == [{"id": 1, "note": None}]
    with pytest.raises(ShapeError, match="the schema of subject 'by-record' is AVRO, not JSON"):
        shaping(registry, "json", value_subject="by-record").frame(spark, landing)


async def test_unreachable_registry_is_retried(
    spark: SparkSession, tmp_path: Path, new_topic: Callable[[str], Topic]
) -> None:
    with RealRegistry(tmp_path / "registry") as registry:
        topic = new_topic("avro-away")
        shape = Shaping.from_options({"value_format": "avro", "registry": {"url": registry.url}})
        with SchemaRegistryClient({"url": registry.url}) as client:
            one = await topic.landing([avro(client, V1)({"id": 1, "note": None}, topic.context())])
            assert column(shape.frame(spark, one)) == [{"id": 1, "note": None}]
            two = await topic.landing([avro(client, V2)({"id": 2, "note": None, "price": 1.0}, topic.context())])
        registry.kill()
        # Known schemas need no registry.
        assert column(shape.frame(spark, one)) == [{"id": 1, "note": None}]
        for shape_batch in (shape.frame, shape.unreadable):
            with pytest.raises(RegistryError, match="does not answer: ConnectionRefusedError") as raised:
                await trio.to_thread.run_sync(partial(shape_batch, spark, two))
            assert raised.value.retriable
        registry.start()
        with SchemaRegistryClient({"url": registry.url}) as client:
            for schema in (V1, V2):
                client.register_schema("avro-away-value", RegisteredSchema(json.dumps(schema), "AVRO"))
        assert column(shape.frame(spark, two)) == [{"id": 2, "note": None, "price": 1.0}]
