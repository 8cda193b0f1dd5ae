"""Typed messages with a real registry, exchanged with Confluent's serializers in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from sarameya import Format, SchemaError, UnknownSubjectError
from sarameya.formats.record_encoder import RecordEncoder
from tests.formats.kit import AVRO_ORDER, PROTO_ORDER, protobuf_class
from tests.formats.test_encoding import JSON_ORDER, Order
from tests.handling.typed_kit import failure, handled
from tests.integration.real_registry import RealRegistry

pytestmark = pytest.mark.integration

ProtoOrder: Any = protobuf_class("Order")
ProtoDeep: Any = protobuf_class("Other.Deep")


@pytest.fixture
def client(real_registry: RealRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": real_registry.url}) as client:
        yield client


async def encoded(topic: str, value: object, form: Format) -> bytes:
    data = (await RecordEncoder("bytes", form).encode(topic, None, value))[1]
    assert data is not None
    return data


@pytest.mark.parametrize("kind", ["avro", "json"])
async def test_objects_are_exchanged_with_confluents_serializers(
    real_registry: RealRegistry, client: SchemaRegistryClient, kind: str
) -> None:
    topic, schema = f"formats-{kind}", {"avro": AVRO_ORDER, "json": JSON_ORDER}[kind]
    context = SerializationContext(topic, MessageField.VALUE)
    read: Any = AvroDeserializer(client)
    write: Any = AvroSerializer(client, schema) if kind == "avro" else JSONSerializer(schema, client)
    if kind == "json":
        read = JSONDeserializer(schema, schema_registry_client=client)
    with pytest.raises(UnknownSubjectError, match=f"{topic}-value"):
        await encoded(topic, Order(7), Format(kind, registry=real_registry.url))
    with pytest.raises(UnknownSubjectError, match=f"{topic}-value"):
        await encoded(topic, Order(7), Format(kind, registry=real_registry.url, schema=schema))
    registering = Format(kind, registry=real_registry.url, schema=schema, register=True)
    data = await encoded(topic, Order(7, "x"), registering)
    for form in (Format(kind, registry=real_registry.url), Format(kind, registry=real_registry.url, schema=schema)):
        assert await encoded(topic, Order(7, "x"), form) == data
    order = {"id": 7, "note": "x"}
    assert await trio.to_thread.run_sync(read, data, context) == order
    by_confluent = await trio.to_thread.run_sync(write, order, context)
    assert by_confluent[:5] == data[:5]
    message = await handled(by_confluent, value_type=Order, value_format=Format(kind, registry=real_registry.url))
    assert message.value == Order(7, "x")


async def test_protobuf_is_exchanged_with_confluents_serializers(
    real_registry: RealRegistry, client: SchemaRegistryClient
) -> None:
    """Confluent's serializer registers a descriptor in base64; others register the .proto file."""
    form = Format("protobuf", registry=real_registry.url)
    context = SerializationContext("formats-protobuf", MessageField.VALUE)
    for message_type in (ProtoOrder, ProtoDeep):
        serializer = ProtobufSerializer(message_type, client, {"use.deprecated.format": False})
        by_confluent = await trio.to_thread.run_sync(serializer, message_type(id=7), context)
        assert (await handled(by_confluent, value_type=message_type, value_format=form)).value == message_type(id=7)
        data = await encoded("formats-protobuf", message_type(id=7), form)
        assert data == by_confluent
        deserializer = ProtobufDeserializer(message_type, {"use.deprecated.format": False})
        assert await trio.to_thread.run_sync(deserializer, data, context) == message_type(id=7)
    error = await failure(by_confluent, value_type=ProtoOrder, value_format=form)
    assert error.problem == "it is a shop.Other.Deep, not a shop.Order"


async def test_registered_proto_file_is_compiled(real_registry: RealRegistry, client: SchemaRegistryClient) -> None:
    form = Format("protobuf", registry=real_registry.url, subject="formats-proto-file")
    await trio.to_thread.run_sync(client.register_schema, "formats-proto-file", Schema(PROTO_ORDER, "PROTOBUF"))
    data = await encoded("any", ProtoDeep(id=7), form)
    reading = Format("protobuf", registry=real_registry.url)
    assert (await handled(data, value_type=ProtoDeep, value_format=reading)).value == ProtoDeep(id=7)


async def test_incompatible_schema_is_refused(real_registry: RealRegistry, client: SchemaRegistryClient) -> None:
    subject = "formats-incompatible"
    first = Format("avro", registry=real_registry.url, schema='"long"', subject=subject, register=True)
    await encoded("any", 7, first)
    await trio.to_thread.run_sync(lambda: client.set_compatibility(subject, "FULL"))
    other = Format("avro", registry=real_registry.url, schema='"string"', subject=subject, register=True)
    with pytest.raises(SchemaError, match="does not accept the schema"):
        await encoded("any", "x", other)


async def test_unknown_id_is_a_decode_error(real_registry: RealRegistry) -> None:
    form = Format("avro", registry=real_registry.url)
    error = await failure(b"\x00\x7f\xff\xff\xff\x00", value_type=Order, value_format=form)
    assert "its schema 2147483647 is unknown" in error.problem
