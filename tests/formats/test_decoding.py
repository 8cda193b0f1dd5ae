"""Formats of messages that a handler reads: text, JSON, Avro and Protobuf, with and without a schema registry."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    ClaimError,
    ConfigError,
    DeadLetterTopic,
    Format,
    RegistryError,
    RegistryOptions,
    RegistryRefusedError,
    Retry,
    SchemaError,
)
from sarameya.formats import avro, packages
from sarameya.observe import Retrying
from sarameya.registry.wire import message_indexes
from sarameya.testing import ClaimFeed
from tests.formats.kit import AVRO_ORDER, PROTO_ORDER, URL, framed, protobuf_class, small_registry
from tests.handling.typed_kit import RecordingHandler, failure, handled
from tests.registry.kit import SmallRegistry

AVRO = Format("avro", registry=URL)
JSON = Format("json", registry=URL)
PROTOBUF = Format("protobuf", registry=URL)


class Order(msgspec.Struct):
    id: int
    note: str | None = None


class Model(pydantic.BaseModel):
    id: int
    note: str | None = None


ProtoOrder: Any = protobuf_class("Order")
ProtoDeep: Any = protobuf_class("Other.Deep")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallRegistry]:
    with small_registry(monkeypatch) as registry:
        yield registry


def avro_bytes(value: object, schema: str = AVRO_ORDER) -> bytes:
    return avro.write(value, avro.parse("schema", schema))


def avro_schema(field: str) -> str:
    """Return a schema with one field, a whole number."""
    return f'{{"type": "record", "name": "Order", "fields": [{{"name": "{field}", "type": "int"}}]}}'


# -- without a registry ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "form", "value", "decoded"),
    [
        (str, "json", b'"text"', "text"),
        (uuid.UUID, "string", b"6a1f5e4e-8d3b-4c59-9a43-0c3c2a0f3f10", uuid.UUID("6a1f5e4e8d3b4c599a430c3c2a0f3f10")),
        (bytes, "bytes", b"x", b"x"),
        (bytes | None, "json", b'{"a": 1}', {"a": 1}),
        (bytes | None, "string", b"x", "x"),
        (Literal["x"], "string", b"x", "x"),
        (Annotated[str, msgspec.Meta(min_length=1)], "string", b"x", "x"),
        (Order, Format("avro", schema=AVRO_ORDER), avro_bytes({"id": 7}), Order(7)),
        (Model, Format("avro", schema=AVRO_ORDER), avro_bytes({"id": 7, "note": "x"}), Model(id=7, note="x")),
        (Any, Format("avro", schema=AVRO_ORDER), avro_bytes({"id": 7}), {"id": 7, "note": None}),
        (Order | None, Format("avro", schema=AVRO_ORDER), None, None),
        (ProtoOrder, None, ProtoOrder(id=7).SerializeToString(), ProtoOrder(id=7)),
        (ProtoOrder | None, "protobuf", None, None),
        (ProtoOrder, "protobuf", b"", ProtoOrder()),
    ],
)
async def test_value_is_decoded_in_its_format(
    autojump_clock: MockClock, kind: Any, form: Any, value: Any, decoded: Any
) -> None:
    assert (await handled(value, value_type=kind, value_format=form)).value == decoded
    assert (await handled(b"", value, key_type=kind, key_format=form)).key == decoded


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


async def test_logical_types_of_avro_become_python_types(autojump_clock: MockClock) -> None:
    at = datetime.datetime(2026, 11, 26, 12, tzinfo=datetime.UTC)
    sale = Sale(at, at.date(), Decimal("1.50"), uuid.UUID(int=7), b"\xff")
    value = avro_bytes(msgspec.structs.asdict(sale), SALE)
    assert (await handled(value, value_type=Sale, value_format=Format("avro", schema=SALE))).value == sale


@pytest.mark.parametrize(
    ("kind", "form", "value", "problem"),
    [
        (uuid.UUID, "string", b"secret", "Invalid UUID"),
        (Order, Format("avro", schema=AVRO_ORDER), b"", "cannot be read by its Avro schema: EOFError"),
        (Order, Format("avro", schema=AVRO_ORDER), avro_bytes({"id": 7}) + b"xy", "it has 2 bytes more"),
        (Order, Format("avro", schema=AVRO_ORDER), b"\xff" * 20, "cannot be read by its Avro schema"),
        (Order, Format("avro", schema='"string"'), b"\x02x", "Expected `object`, got `str`"),
        (Order, Format("avro", schema=AVRO_ORDER), None, "it is a tombstone"),
        (ProtoOrder, "protobuf", b"\xff", "it is no shop.Order: DecodeError"),
        (ProtoOrder, "protobuf", None, "it is a tombstone"),
    ],
)
async def test_undecodable_value_is_an_error(
    autojump_clock: MockClock, kind: Any, form: Any, value: Any, problem: str
) -> None:
    error = await failure(value, value_type=kind, value_format=form)
    assert problem in str(error)
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    ("kind", "form", "named", "problem"),
    [
        (Order, "avro", "value_format", "give a Format"),
        (Order, "xml", "value_format", "must be one of"),
        (Order, "bytes", "value_format", "the type must be bytes"),
        (Order, "string", "value_format", "decodes to text, which is no .*Order"),
        (int | None, "string", "value_format", "decodes to text, which is no .*int"),
        (Order, "protobuf", "value_type", "class that protoc has generated"),
        (bytes | None, "protobuf", "value_type", "class that protoc has generated"),
        (Order, Format("json", registry=URL, schema="{}"), "value_format", "has a schema, which is for a producer"),
        (Order, Format("avro", registry=URL, subject="s"), "value_format", "has a subject, which is for a producer"),
        (Order, Format("avro", registry=URL, version=3), "value_format", "has a version, which is for a producer"),
        (Order, Format("avro", schema='{"type": "record"}'), "value_format", "the Avro schema is not valid"),
    ],
)
async def test_unsuitable_format_is_refused(
    autojump_clock: MockClock, registry: SmallRegistry, kind: Any, form: Any, named: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        await ClaimFeed().run(RecordingHandler(value_type=kind, value_format=form))
    assert raised.value.option == named


@pytest.mark.parametrize(
    ("kind", "form", "package", "command"),
    [
        (Order, Format("avro", schema=AVRO_ORDER), "fastavro", "fastavro>=1.9"),
        (ProtoOrder, PROTOBUF, "grpc_tools", "grpcio-tools>="),
    ],
)
async def test_missing_package_is_named_with_its_command(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, kind: Any, form: Any, package: str, command: str
) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=f"needs the package {package}: pip install .*{command}"):
        await ClaimFeed().run(RecordingHandler(value_type=kind, value_format=form))


# -- with a registry ---------------------------------------------------------------------------------


async def test_avro_is_read_with_the_schema_of_the_writer(autojump_clock: MockClock, registry: SmallRegistry) -> None:
    old = registry.register(
        "orders-value", '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}'
    )
    new = registry.register("orders-value", AVRO_ORDER)
    feed, handler = ClaimFeed("orders"), RecordingHandler(value_type=Order, value_format=AVRO)
    for _ in range(2):
        feed.send(framed(old, b"\x0e"))
        feed.send(framed(new, avro_bytes({"id": 8, "note": "x"})))
    feed.end()
    await feed.run(handler)
    assert [message.value for message in handler.messages] == [Order(7), Order(8, "x")] * 2
    assert registry.requests == [f"/schemas/ids/{old}", f"/schemas/ids/{new}"]


async def test_avro_is_resolved_to_the_schema_of_the_reader(autojump_clock: MockClock, registry: SmallRegistry) -> None:
    number = registry.register(
        "s", '{"type": "record", "name": "Order", "fields": [{"name": "number", "type": "int"}]}'
    )
    reader = AVRO_ORDER.replace('"type": "long"', '"type": "long", "aliases": ["number"]')
    message = await handled(framed(number, b"\x0e"), value_format=Format("avro", registry=URL, schema=reader))
    assert message.value == {"id": 7, "note": None}


async def test_avro_may_refer_to_other_schemas(autojump_clock: MockClock, registry: SmallRegistry) -> None:
    registry.register("order", AVRO_ORDER)
    reference = {"name": "shop.Order", "subject": "order", "version": 1}
    schema = '{"type": "record", "name": "Pair", "fields": [{"name": "a", "type": "shop.Order"}]}'
    number = registry.register("pair", schema, references=[reference])
    message = await handled(framed(number, avro_bytes({"id": 7})), value_format=AVRO)
    assert message.value == {"a": {"id": 7, "note": None}}


async def test_json_is_read_without_its_header(autojump_clock: MockClock, registry: SmallRegistry) -> None:
    number = registry.register("orders-value", "{}", "JSON")
    assert (await handled(framed(number, b'{"id": 7}'), value_type=Order, value_format=JSON)).value == Order(7)
    error = await failure(framed(number, b'{"id": "7"}'), value_type=Order, value_format=JSON)
    assert error.path == "$.id"


async def test_protobuf_message_of_another_type_is_undecodable(
    autojump_clock: MockClock, registry: SmallRegistry
) -> None:
    number = registry.register("orders-value", PROTO_ORDER, "PROTOBUF")
    order = framed(number, ProtoOrder(id=7).SerializeToString(), message_indexes((1,)))
    assert (await handled(order, value_type=ProtoOrder, value_format=PROTOBUF)).value == ProtoOrder(id=7)
    deep = framed(number, ProtoDeep(id=7).SerializeToString(), message_indexes((0, 0)))
    assert (await handled(deep, value_type=ProtoDeep, value_format=PROTOBUF)).value == ProtoDeep(id=7)
    error = await failure(deep, value_type=ProtoOrder, value_format=PROTOBUF)
    assert error.problem == "it is a shop.Other.Deep, not a shop.Order"
    none = framed(number, b"", message_indexes((5,)))
    assert "names message [5]" in (await failure(none, value_type=ProtoOrder, value_format=PROTOBUF)).problem


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b'{"id": 7}', "it has no schema registry header: its first byte is 0x7b, not 0x00"),
        (b"\x00\x00", "it ends within its schema registry header, after 2 bytes"),
        (framed(99, b""), "its schema 99 is unknown to Registry(http://small)"),
        (framed(1, b""), "its schema 1 is JSON, not AVRO"),
        (framed(2, b""), "it cannot be read by its Avro schema: EOFError"),
        (None, "the message has none (it is a tombstone); value_type = T | None accepts that"),
    ],
)
async def test_undecodable_registered_value_is_an_error(
    autojump_clock: MockClock, registry: SmallRegistry, value: Any, problem: str
) -> None:
    registry.register("s", "{}", "JSON")
    registry.register("t", AVRO_ORDER)
    error = await failure(value, value_type=Order, value_format=AVRO)
    assert error.problem.startswith(problem)


async def test_tombstone_needs_no_registry(autojump_clock: MockClock, registry: SmallRegistry) -> None:
    assert (await handled(None, value_type=Order | None, value_format=AVRO)).value is None
    assert registry.requests == []


async def test_key_and_value_share_a_registry(autojump_clock: MockClock, registry: SmallRegistry) -> None:
    number = registry.register("s", AVRO_ORDER)
    record = framed(number, avro_bytes({"id": 7}))
    await handled(record, record, value_type=Order, value_format=AVRO, key_type=Order, key_format=AVRO)
    assert registry.requests == ["/schemas/ids/1"]


async def test_message_waits_until_the_registry_is_available(
    autojump_clock: MockClock, registry: SmallRegistry
) -> None:
    """While the registry is down for an hour, no message becomes a dead letter, and no attempt is counted."""
    number = registry.register("s", AVRO_ORDER)
    registry.fault = lambda _: (503, b"down") if trio.current_time() < 3600 else None
    feed, handler = ClaimFeed("orders"), RecordingHandler(value_type=Order, value_format=AVRO)
    handler.retry, handler.dead_letters = Retry(attempts=2), DeadLetterTopic()
    feed.send(framed(number, avro_bytes({"id": 7})))
    feed.send(framed(number, avro_bytes({"id": 8})))
    feed.end()
    await feed.run(handler)
    assert [message.value for message in handler.messages] == [Order(7), Order(8)]
    assert 3600 <= trio.current_time() <= 3700
    assert (feed.committed, feed.sent) == (2, [])
    retries = [event for event in feed.events if isinstance(event, Retrying)]
    assert {(event.what, event.kind) for event in retries} == {
        ("looking up the schema of orders-0 offset 0", "registry")
    }
    assert "answers with status 503: down" in retries[0].cause


async def test_retries_of_a_registry_stop_with_the_claim(autojump_clock: MockClock, registry: SmallRegistry) -> None:
    registry.fault = lambda _: (503, b"down")
    feed, handler = ClaimFeed("orders"), RecordingHandler(value_type=Order, value_format=AVRO)
    feed.send(framed(1, b""))
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        await trio.sleep(100)
        ended = trio.current_time()
        feed.end(now=True)
    assert trio.current_time() - ended < 1
    assert (handler.messages, feed.committed) == ([], 0)


async def test_stopped_claim_does_not_wait_for_a_registry_response(
    autojump_clock: MockClock, registry: SmallRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_response(function: Any) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr("sarameya.formats.lookups.run_in_thread", no_response)
    feed, handler = ClaimFeed("orders"), RecordingHandler(value_type=Order, value_format=AVRO)
    feed.send(framed(1, b""))
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        await trio.sleep(100)
        ended = trio.current_time()
        feed.end(now=True)
    assert trio.current_time() - ended < 1


@pytest.mark.parametrize(
    ("form", "value", "fault", "kind"),
    [
        (AVRO, framed(1, b""), (401, b""), RegistryRefusedError),
        (AVRO, framed(2, b""), None, SchemaError),
        (PROTOBUF, framed(3, b"", b"\x00"), None, SchemaError),
    ],
)
async def test_permanent_error_of_a_registry_fails_the_claim(
    autojump_clock: MockClock,
    registry: SmallRegistry,
    form: Format,
    value: bytes,
    fault: Any,
    kind: type[RegistryError],
) -> None:
    """A person has to act. The message is valid, so it does not become a dead letter."""
    registry.register("s", AVRO_ORDER)
    registry.register("s", '{"type": "record"}')
    registry.register("s", "message {", "PROTOBUF")
    registry.fault = lambda _: fault
    feed, handler = ClaimFeed("orders"), RecordingHandler(value_format=form, dead_letters=DeadLetterTopic())
    handler.value_type = ProtoOrder if form is PROTOBUF else Order
    feed.send(value)
    with pytest.raises(ExceptionGroup) as raised:
        await feed.run(handler)
    (error,) = raised.value.exceptions
    assert isinstance(error, ClaimError)
    assert type(error.__cause__) is kind
    assert feed.sent == []


async def test_unknown_schema_makes_a_dead_letter(autojump_clock: MockClock, registry: SmallRegistry) -> None:
    feed, handler = ClaimFeed("orders"), RecordingHandler(value_type=Order, value_format=AVRO)
    handler.dead_letters = DeadLetterTopic()
    feed.send(framed(99, b"x"))
    feed.end()
    await feed.run(handler)
    (letter,) = feed.sent
    assert letter.value == framed(99, b"x")
    assert registry.requests == ["/schemas/ids/99"] * 2
    assert feed.committed == 1


async def test_schemas_are_requested_over_http() -> None:
    """Uses real threads and a real connection. The event loop does not block on a response."""
    with SmallRegistry() as small:
        number = small.register("orders-value", AVRO_ORDER)
        registry = RegistryOptions(url=small.url, username="me", password="secret")
        form = Format("avro", registry=registry)
        message = await handled(framed(number, avro_bytes({"id": 7})), value_type=Order, value_format=form)
        assert message.value == Order(7)
        assert small.headers["Authorization"].startswith("Basic ")
