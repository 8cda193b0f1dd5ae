"""Formats of records that a producer sends, read again by the project's decoders and by Confluent's."""

from __future__ import annotations

import dataclasses
import datetime
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from enum import Enum
from typing import Any

import attrs
import msgspec
import pydantic
import pytest
import trio
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from trio.testing import MockClock

from sarameya import (
    ConfigError,
    EncodeError,
    Format,
    Producer,
    ProducerRecord,
    RegistryError,
    SchemaError,
    UnknownSubjectError,
)
from sarameya.formats import packages
from sarameya.formats.record_encoder import RecordEncoder
from sarameya.registry.wire import message_indexes
from sarameya.testing import memory_cluster, virtual_wall_clock
from tests.formats.kit import AVRO_ORDER, PROTO_ORDER, URL, framed, protobuf_class, small_registry
from tests.handling.typed_kit import handled
from tests.producer.kit import log
from tests.registry.kit import SmallRegistry

AVRO = Format("avro", registry=URL)
JSON = Format("json", registry=URL)
PROTOBUF = Format("protobuf", registry=URL)
JSON_ORDER = json.dumps(
    {"type": "object", "properties": {"id": {"type": "integer", "minimum": 1}}, "required": ["id"], "title": "Order"}
)


class Order(msgspec.Struct):
    id: int
    note: str | None = None


@dataclasses.dataclass
class Point:
    x: int


@attrs.define
class Size:
    width: float


class Kind(Enum):
    BOOK = "book"


class Model(pydantic.BaseModel):
    id: int = pydantic.Field(alias="Id")
    at: datetime.date


class Sale(msgspec.Struct):
    at: datetime.datetime
    day: datetime.date
    price: Decimal
    number: uuid.UUID
    raw: bytes


SALE = """{"type": "record", "name": "Sale", "fields": [
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "number", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "raw", "type": "bytes"}
]}"""
AT = datetime.datetime(2026, 11, 26, 12, tzinfo=datetime.UTC)

ProtoOrder: Any = protobuf_class("Order")
ProtoDeep: Any = protobuf_class("Other.Deep")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallRegistry]:
    with small_registry(monkeypatch) as registry:
        yield registry


async def encoded(value: Any, form: Format | str, topic: str = "orders") -> bytes | None:
    """Return the bytes of a value."""
    return (await RecordEncoder("bytes", form).encode(topic, None, value))[1]


@pytest.mark.parametrize(
    ("value", "form", "data"),
    [
        (Order(7), "json", b'{"id":7,"note":null}'),
        ([Order(7)], "json", b'[{"id":7,"note":null}]'),
        (Point(1), "json", b'{"x":1}'),
        (Size(1.5), "json", b'{"width":1.5}'),
        ({"a": Kind.BOOK}, "json", b'{"a":"book"}'),
        ("text", "json", b'"text"'),
        (Model(Id=7, at=AT.date()), "json", b'{"Id":7,"at":"2026-11-26"}'),
        ([Model(Id=7, at=AT.date())], "json", b'[{"Id":7,"at":"2026-11-26"}]'),
        ("für", "string", "für".encode()),
        (uuid.UUID(int=7), "string", b"00000000-0000-0000-0000-000000000007"),
        (Kind.BOOK, "string", b"book"),
        (b"x", "bytes", b"x"),
        (None, "bytes", None),
        (None, "json", None),
        (Order(7), Format("avro", schema=AVRO_ORDER), b"\x0e\x00"),
        ({"id": 7}, Format("avro", schema=AVRO_ORDER), b"\x0e\x00"),
        (b"x", Format("avro", schema='"bytes"'), b"\x02x"),
        (ProtoOrder(id=7), "protobuf", b"\x08\x07"),
    ],
)
async def test_value_is_encoded(value: Any, form: Any, data: bytes | None) -> None:
    assert await encoded(value, form) == data


@pytest.mark.parametrize(
    ("value", "form", "message"),
    [
        (object(), "json", "object is no type that can be encoded"),
        (b"x", "json", "it is bytes"),
        (5, "string", "int is no text"),
        (b"x", "string", "bytes is no text"),
        ("\ud800", "string", "cannot be written as UTF-8"),
        (Order(7), "protobuf", "Order is no message of Protobuf"),
        (ProtoOrder, "protobuf", "is no message of Protobuf"),
        ({"note": "x"}, Format("avro", schema=AVRO_ORDER), "it does not have the Avro schema: .*id"),
        ({"id": "x"}, Format("avro", schema=AVRO_ORDER), "it does not have the Avro schema: .*on field id"),
        ({"id": 7, "more": 1}, Format("avro", schema=AVRO_ORDER), "more fields than the schema specifies: more"),
    ],
)
async def test_value_without_the_format_is_refused(value: Any, form: Any, message: str) -> None:
    with pytest.raises(EncodeError, match=f"record for orders: the value cannot be encoded: .*{message}") as raised:
        await encoded(value, form)
    assert (raised.value.topic, raised.value.part) == ("orders", "value")


async def test_value_without_a_format_must_be_bytes() -> None:
    with pytest.raises(TypeError, match="value must be bytes or None, not Order; set value_format"):
        await encoded(Order(7), "bytes")
    with pytest.raises(TypeError, match="key must be bytes or None, not str; set key_format"):
        await RecordEncoder("bytes", "json").encode("orders", "key", Order(7))


@pytest.mark.parametrize(
    ("form", "package", "command"),
    [
        (Format("avro", schema=AVRO_ORDER), "fastavro", "fastavro>="),
        (JSON, "jsonschema", "jsonschema>="),
        (PROTOBUF, "grpc_tools", "grpcio-tools>="),
    ],
)
def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, form: Format, package: str, command: str) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=f"needs the package {package}: pip install .*{command}"):
        Producer("a:1", value_format=form)


def test_wrong_format_of_a_producer_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be one of") as raised:
        Producer("a:1", key_format="xml")
    assert raised.value.option == "key_format"
    with pytest.raises(ConfigError, match="is not valid"):
        Producer("a:1", value_format=Format("avro", schema='{"type": "record"}'))


# -- with a registry ---------------------------------------------------------------------------------


async def test_latest_schema_of_the_topic_is_used(autojump_clock: MockClock, registry: SmallRegistry) -> None:
    registry.register("orders-value", '"long"')
    number = registry.register("orders-value", AVRO_ORDER)
    encoder = RecordEncoder(AVRO, AVRO)
    registry.register("orders-key", '"long"')
    for _ in range(3):
        assert await encoder.encode("orders", 7, Order(7)) == (framed(1, b"\x0e"), framed(number, b"\x0e\x00"))
    assert registry.requests == [f"/subjects/orders-{column}/versions/latest" for column in ("key", "value")]


async def test_subject_and_version_can_be_named(autojump_clock: MockClock, registry: SmallRegistry) -> None:
    registry.register("numbers", '"long"')
    registry.register("numbers", '"string"')
    assert await encoded(7, Format("avro", registry=URL, subject="numbers", version=1)) == framed(1, b"\x0e")


async def test_schema_is_registered_only_with_the_option(autojump_clock: MockClock, registry: SmallRegistry) -> None:
    with pytest.raises(UnknownSubjectError, match="not registered for subject 'orders-value'"):
        await encoded(Order(7), Format("avro", registry=URL, schema=AVRO_ORDER))
    register = Format("avro", registry=URL, schema=AVRO_ORDER, register=True)
    assert await encoded(Order(7), register) == framed(1, b"\x0e\x00")
    assert await encoded(Order(7), Format("avro", registry=URL, schema=AVRO_ORDER)) == framed(1, b"\x0e\x00")
    schema = Format("json", registry=URL, schema=JSON_ORDER, register=True, subject="json")
    assert await encoded({"id": 7}, schema) == framed(2, b'{"id":7}')


async def test_json_is_validated_by_its_schema(autojump_clock: MockClock, registry: SmallRegistry) -> None:
    number = registry.register("orders-value", JSON_ORDER, "JSON")
    assert await encoded(Order(7), JSON) == framed(number, b'{"id":7,"note":null}')
    with pytest.raises(EncodeError, match=r"it does not have JSON schema 1, at \$.id: 0 is less than the minimum of 1"):
        await encoded(Order(0), JSON)


async def test_json_schema_may_refer_to_others(autojump_clock: MockClock, registry: SmallRegistry) -> None:
    registry.register("order", JSON_ORDER, "JSON")
    reference = {"name": "order.json", "subject": "order", "version": 1}
    text = json.dumps({"type": "array", "items": {"$ref": "order.json"}})
    number = registry.register("orders-value", text, "JSON", [reference])
    assert await encoded([Order(7)], JSON) == framed(number, b'[{"id":7,"note":null}]')
    with pytest.raises(EncodeError, match=r"at \$\[1\].id"):
        await encoded([Order(7), Order(0)], JSON)
    registry.register("others-value", text, "JSON")
    with pytest.raises(SchemaError, match=r"order\.json"):
        await encoded([Order(7)], JSON, "others")


async def test_protobuf_header_has_the_indexes_of_the_message(
    autojump_clock: MockClock, registry: SmallRegistry
) -> None:
    number = registry.register("orders-value", PROTO_ORDER, "PROTOBUF")
    assert await encoded(ProtoOrder(id=7), PROTOBUF) == framed(number, b"\x08\x07", message_indexes((1,)))
    assert await encoded(ProtoDeep(id=7), PROTOBUF) == framed(number, b"\x08\x07", message_indexes((0, 0)))
    registry.register("others-value", 'syntax = "proto3"; message Other {}', "PROTOBUF")
    with pytest.raises(SchemaError, match=r"Protobuf schema 2 has no message shop.Order"):
        await encoded(ProtoOrder(id=7), PROTOBUF, "others")


@pytest.mark.parametrize(
    ("schema", "kind", "form", "message"),
    [
        ("{}", "JSON", AVRO, "the schema of subject 'orders-value' is JSON, not AVRO: name another subject"),
        ('{"type": "record"}', "AVRO", AVRO, "Avro schema 1 is not valid"),
        ('{"type": 5}', "JSON", JSON, "JSON schema 1 is not valid: 5 is not valid"),
        ("{", "JSON", JSON, "JSON schema 1 is not valid"),
        ("message {", "PROTOBUF", PROTOBUF, "Protobuf schema 1 cannot be compiled"),
    ],
)
async def test_unusable_schema_raises(
    autojump_clock: MockClock, registry: SmallRegistry, schema: str, kind: str, form: Format, message: str
) -> None:
    registry.register("orders-value", schema, kind)
    with pytest.raises(SchemaError, match=message):
        await encoded(ProtoOrder() if form is PROTOBUF else {}, form)


async def test_unavailable_registry_makes_send_raise(autojump_clock: MockClock, registry: SmallRegistry) -> None:
    registry.register("orders-value", AVRO_ORDER)
    registry.fault = lambda _: (503, b"down")
    async with memory_cluster({"orders": 1}) as cluster:
        producer = Producer[Order](
            cluster.bootstrap_servers, value_format=AVRO, transport=cluster.transport, wall_clock=virtual_wall_clock
        )
        async with producer:
            with pytest.raises(RegistryError, match="status 503: down") as raised:
                await producer.send("orders", Order(7))
            assert raised.value.retriable
            registry.fault = None
            await producer.send("orders", Order(7))
        assert [message.value for message in log(cluster, 0)] == [framed(1, b"\x0e\x00")]


# -- round trips -------------------------------------------------------------------------------------


async def test_producer_sends_objects_of_any_type(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1}) as cluster:
        producer = Producer[Any, str](
            cluster.bootstrap_servers,
            value_format="json",
            key_format="string",
            transport=cluster.transport,
            wall_clock=virtual_wall_clock,
        )
        async with producer:
            await producer.send("orders", Order(7), key="a")
            await producer.send("orders", None, key="a")
            await producer.send_many(ProducerRecord("orders", point, "b") for point in (Point(1), Point(2)))
            with pytest.raises(EncodeError):
                await producer.send_many([ProducerRecord("orders", Order(9)), ProducerRecord("orders", object())])
        sent = [(message.key, message.value) for message in log(cluster, 0)]
    assert sent == [(b"a", b'{"id":7,"note":null}'), (b"a", None), (b"b", b'{"x":1}'), (b"b", b'{"x":2}')]


@pytest.mark.parametrize(
    ("kind", "value", "form"),
    [
        (Order, Order(7, "x"), "json"),
        (Point, Point(1), "json"),
        (Size, Size(1.5), "json"),
        (Kind, Kind.BOOK, "json"),
        (Model, Model(Id=7, at=AT.date()), "json"),
        (str, "text", "string"),
        (uuid.UUID, uuid.UUID(int=7), "string"),
        (Sale, Sale(AT, AT.date(), Decimal("1.50"), uuid.UUID(int=7), b"\xff"), "json"),
        (Sale, Sale(AT, AT.date(), Decimal("1.50"), uuid.UUID(int=7), b"\xff"), Format("avro", schema=SALE)),
        (ProtoOrder, ProtoOrder(id=7), "protobuf"),
        (Order, Order(7, "x"), AVRO),
        (ProtoDeep, ProtoDeep(id=7), PROTOBUF),
        (Order, Order(7, "x"), JSON),
    ],
)
async def test_handler_receives_the_value_of_the_producer(
    autojump_clock: MockClock, registry: SmallRegistry, kind: Any, value: Any, form: Any
) -> None:
    schemas = {"avro": AVRO_ORDER, "protobuf": PROTO_ORDER, "json": JSON_ORDER}
    if isinstance(form, Format) and form.registry:
        registry.register("orders-value", schemas[form.name], form.name.upper())
    data = await encoded(value, form)
    assert (await handled(data, value_type=kind, value_format=form)).value == value


VALUE = SerializationContext("orders", MessageField.VALUE)


async def test_encoders_and_decoders_match_those_of_confluent() -> None:
    with SmallRegistry() as small, SchemaRegistryClient({"url": small.url}) as client:
        order = {"id": 7, "note": "x"}
        for form, serializer, deserializer in (
            ("avro", AvroSerializer(client, AVRO_ORDER), AvroDeserializer(client)),
            ("json", JSONSerializer(JSON_ORDER, client), JSONDeserializer(JSON_ORDER, schema_registry_client=client)),
        ):
            own_format = Format(form, registry=small.url)
            by_confluent = await trio.to_thread.run_sync(serializer, order, VALUE)
            assert (await handled(by_confluent, value_type=Order, value_format=own_format)).value == Order(7, "x")
            by_us = await encoded(Order(7, "x"), own_format)
            assert by_us is not None
            assert by_us[:5] == by_confluent[:5]
            assert await trio.to_thread.run_sync(deserializer, by_us, VALUE) == order
