"""Typed messages: decoding of keys and values to a type, and its errors."""

from __future__ import annotations

import dataclasses
import gc
from enum import Enum
from typing import Annotated, Any, Generic, TypedDict, TypeVar

import attrs
import msgspec
import pydantic
import pytest
from trio.testing import MockClock

from sarameya import (
    ConfigError,
    DeadLetterTopic,
    Message,
    MessageHandler,
    Retry,
    RetryTopics,
)
from sarameya.testing import ClaimFeed
from tests.handling.typed_kit import RecordingHandler, failure, handled


class Order(msgspec.Struct):
    id: int
    tags: list[str] = []


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is negative")


@attrs.define
class Size:
    width: float


class Colours(TypedDict):
    red: int


class Kind(Enum):
    BOOK = "book"


class Item(pydantic.BaseModel):
    price: int = pydantic.Field(gt=0)
    part: Item | None = None


class Basket(pydantic.BaseModel):
    items: dict[str, list[Item]]
    owner: str


@pydantic.dataclasses.dataclass
class Even:
    number: int

    @pydantic.field_validator("number")
    @classmethod
    def _check(cls, number: int) -> int:
        if number % 2:
            raise ValueError("odd")
        return number


@pytest.mark.parametrize(
    ("kind", "value", "decoded"),
    [
        (Order, b'{"id": 7, "tags": ["new"]}', Order(7, ["new"])),
        (list[Order], b'[{"id": 7}]', [Order(7)]),
        (Point, b'{"x": 1}', Point(1)),
        (Size, b'{"width": 1.5}', Size(1.5)),
        (Colours, b'{"red": 3}', {"red": 3}),
        (dict[str, int], b'{"a": 1}', {"a": 1}),
        (int, b"42", 42),
        (Annotated[int, msgspec.Meta(gt=0)], b"42", 42),
        (Kind, b'"book"', Kind.BOOK),
        (Any, b'{"a": null}', {"a": None}),
        (Item, b'{"price": "5", "part": {"price": 2}}', Item(price=5, part=Item(price=2))),
        (list[Item], b'[{"price": 5}]', [Item(price=5)]),
        (Item | None, None, None),
        (Item | Even, b'{"number": 2}', Even(2)),
        (str, "für Ö".encode(), "für Ö"),
        (str | None, b"null", "null"),
        (str | None, None, None),
        (bytes, b"\xff", b"\xff"),
        (bytes | None, None, None),
        (Order | None, None, None),
        (Order | None, b"null", None),
        (Any, None, None),
    ],
)
async def test_value_is_decoded_to_its_type(autojump_clock: MockClock, kind: Any, value: Any, decoded: Any) -> None:
    assert (await handled(value, value_type=kind)).value == decoded


async def test_key_is_decoded_to_its_type(autojump_clock: MockClock) -> None:
    message = await handled(b"raw", b'{"id": 7}', key_type=Order)
    assert (message.key, message.value) == (Order(7), b"raw")


async def test_other_fields_of_a_decoded_message_are_unchanged(autojump_clock: MockClock) -> None:
    message = await handled(b"7", b"k", value_type=int, key_type=str)
    assert isinstance(message, Message)
    assert (message.topic_partition, message.offset, message.timestamp) == (("orders", 0), 5, 1234)
    assert (message.key, message.value, message.headers) == ("k", 7, (("trace", b"7"),))
    assert message.replace(value=8).value == 8


async def test_messages_without_types_are_unchanged(autojump_clock: MockClock) -> None:
    message = await handled(b"{", None)
    assert type(message) is Message
    assert (message.key, message.value) == (None, b"{")


async def test_decoded_message_is_tracked_by_the_garbage_collector(autojump_clock: MockClock) -> None:
    message = await handled(b"{}", value_type=dict[str, Any])
    assert gc.is_tracked(message)
    assert not gc.is_tracked(await handled(b"{}"))


@pytest.mark.parametrize(
    ("kind", "value", "path", "problem"),
    [
        (Order, b'{"id": "7"}', "$.id", "Expected `int`, got `str`"),
        (list[Order], b'[{"id": 7, "tags": ["a", 1]}]', "$[0].tags[1]", "Expected `str`, got `int`"),
        (Order, b"{}", "", "Object missing required field `id`"),
        (Order, b'{"id": 7', "", "Input data was truncated"),
        (Order, b'{"id": 7} ;', "", "JSON is malformed: trailing characters (byte 11)"),
        (Order, b"", "", "Input data was truncated"),
        (Order, b"null", "", "Expected `object`, got `null`"),
        (Order, None, "", "the message has none (it is a tombstone); value_type = T | None accepts that"),
        (bytes, None, "", "the message has none (it is a tombstone); value_type = T | None accepts that"),
        (Point, b'{"x": -1}', "", "x is negative"),
        (Item, b'{"price": 0}', "$.price", "Input should be greater than 0"),
        (Basket, b'{"items": {"a": [{}]}}', "$.items.a[0].price", "Field required (and 1 more)"),
        (Item, b"{", "", "Invalid JSON: EOF while parsing an object at line 1 column 1"),
        (Item, None, "", "the message has none (it is a tombstone); value_type = T | None accepts that"),
        (Even, b'{"number": 1}', "$.number", "Value error, odd"),
        (Any, b"[" * 100_000, "", "RecursionError: maximum recursion depth exceeded while deserializing an object"),
        (str, b"a\xff", "", "it is no UTF-8: invalid start byte at byte 1"),
    ],
)
async def test_undecodable_value_is_named_with_its_field(
    autojump_clock: MockClock, kind: Any, value: Any, path: str, problem: str
) -> None:
    error = await failure(value, value_type=kind)
    assert (error.partition, error.offset, error.part) == (("orders", 0), 5, "value")
    assert (error.path, error.problem) == (path, problem)
    at = f" at {path}" if path else ""
    assert str(error) == f"orders-0 offset 5: the value cannot be decoded{at}: {problem}"
    assert error.permanent


async def test_undecodable_key_is_named(autojump_clock: MockClock) -> None:
    error = await failure(b"7", b"x", key_type=int)
    assert (error.part, error.problem) == ("key", "JSON is malformed: invalid character (byte 0)")
    error = await failure(b"7", None, key_type=str)
    assert error.problem == "the message has none; key_type = T | None accepts that"


@pytest.mark.parametrize(
    ("kind", "value"),
    [(Kind, b'"%s"'), (Item, b'{"price": "%s"}'), (dict[str, Item], b'{"%s": {}}'), (dict[str, int], b'{"%s": ""}')],
)
async def test_error_shows_little_of_the_content(autojump_clock: MockClock, kind: Any, value: bytes) -> None:
    error = await failure(value % (b"secret " * 1000), value_type=kind)
    assert len(str(error)) < 400
    assert error.__cause__ is None
    assert error.__suppress_context__


async def test_undecodable_message_is_not_retried(autojump_clock: MockClock) -> None:
    handler = RecordingHandler(
        value_type=Order, retry=Retry(attempts=5), retry_topics=RetryTopics([60]), dead_letters=DeadLetterTopic()
    )
    feed = ClaimFeed("orders", group="billing")
    feed.send(b'{"id": "x"}', b"key")
    feed.send(b'{"id": 7}')
    feed.end()
    await feed.run(handler)
    (letter,) = feed.sent
    assert (letter.topic, letter.value, letter.key) == ("orders.billing.dead", b'{"id": "x"}', b"key")
    headers = dict(letter.headers)
    assert headers["__sarameya.errors.attempts"] == b"1"
    assert headers["__sarameya.errors.exception.class"] == b"sarameya.errors.DecodeError"
    assert b"at $.id: Expected `int`, got `str`" in (headers["__sarameya.errors.exception.message"] or b"")
    assert [message.value for message in handler.messages] == [Order(7)]
    assert feed.committed == 2


class Changes(MessageHandler[Order]):
    """A handler that changes the value, and then fails once."""

    retry = Retry(attempts=2)

    def __init__(self) -> None:
        self.tags: list[list[str]] = []

    async def handle(self, message: Message[Order]) -> None:
        message.value.tags.append("seen")
        self.tags.append(message.value.tags)
        if len(self.tags) == 1:
            raise ValueError


async def test_each_attempt_gets_its_own_value(autojump_clock: MockClock) -> None:
    feed, handler = ClaimFeed(), Changes()
    feed.send(b'{"id": 7}')
    feed.end()
    await feed.run(handler)
    assert handler.tags == [["seen"], ["seen"]]


async def test_failed_message_of_a_retry_topic_is_decoded_there(autojump_clock: MockClock) -> None:
    feed, handler = ClaimFeed("orders"), Changes()
    handler.retry, handler.retry_topics = Retry(attempts=1), RetryTopics([60])
    feed.send(b'{"id": 7}')
    feed.end()
    await feed.run(handler)
    (record,) = feed.sent
    assert record.value == b'{"id": 7}'
    tier = ClaimFeed(record.topic)
    tier.send(record.value, record.key, record.headers)
    tier.end()
    await tier.run(handler)
    assert handler.tags == [["seen"], ["seen"]]


class InThreads(MessageHandler[Order]):
    def __init__(self) -> None:
        self.values: list[Order] = []

    def handle(self, message: Message[Order]) -> None:
        self.values.append(message.value)


async def test_plain_function_gets_decoded_messages() -> None:
    feed, handler = ClaimFeed(), InThreads()
    feed.send(b'{"id": 7}')
    feed.end()
    await feed.run(handler)
    assert handler.values == [Order(7)]


T = TypeVar("T")


class Lists(MessageHandler[list[T]], Generic[T]):
    async def handle(self, message: Message[list[T]]) -> None: ...


class Numbers(Lists[int]): ...


class Fixed(MessageHandler[T, str]):
    value_type = Order

    async def handle(self, message: Message[T, str]) -> None: ...


def test_type_arguments_set_the_types_of_messages() -> None:
    assert (Changes.value_type, Changes.key_type) == (Order, bytes | None)
    assert (Numbers.value_type, Numbers.key_type) == (list[int], bytes | None)
    assert (Fixed.value_type, Fixed.key_type) == (Order, str)
    assert (RecordingHandler.value_type, RecordingHandler.key_type) == (bytes | None, bytes | None)
    with pytest.raises(TypeError, match="MessageHandler takes at most 2 types, not 3"):
        type("Third", (RecordingHandler,), {"__orig_bases__": (MessageHandler[Order, str, int],)})  # type: ignore[misc]


class NoType:
    pass


@dataclasses.dataclass
class HasNoType:
    rest: list[NoType]


class ModelWithoutType(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=False)
    later: Missing  # type: ignore[name-defined]  # noqa: F821


@dataclasses.dataclass
class HasModel:
    item: Item


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (NoType, "NoType"),
        (HasModel, "make all of it pydantic models"),
        (ModelWithoutType, "pydantic"),
        (Item | NoType, "pydantic"),
        (HasNoType, "NoType"),
        (Order | Point, "more than one"),
        ("Order", "not the name"),
        (T, "type variable"),
        (7, "must be a type"),
    ],
)
async def test_type_that_cannot_be_decoded_is_refused(autojump_clock: MockClock, kind: Any, problem: str) -> None:
    for option in ("value_type", "key_type"):
        with pytest.raises(ConfigError, match=problem) as raised:
            await ClaimFeed().run(RecordingHandler(**{option: kind}))
        assert raised.value.option == option
