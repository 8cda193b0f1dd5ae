from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from sarameya import CircuitBreaker, DeadLetterTopic, Format, MessageHandler, RegistryOptions, Retry, RetryTopics
from sarameya.errors import ConfigError, HandlerError
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.service.app import handler_factory
from sarameya.service.app.handler_factory import build_handler, default_options

INSTALLED = EntryPoints(
    [
        EntryPoint("plain", "made_up_handlers:Plain", handler_factory.ENTRY_POINT_GROUP),
        EntryPoint("broken", "made_up_handlers_missing:Plain", handler_factory.ENTRY_POINT_GROUP),
    ]
)


class Plain(ConsumerGroupHandler):
    def __init__(self, path: str, limit: int = 10) -> None:
        self.path = path
        self.limit = limit

    async def consume_claim(self, session: object, claim: object) -> None: ...


class Lost(Exception):
    pass


class Optionless(ConsumerGroupHandler):
    async def consume_claim(self, session: object, claim: object) -> None: ...


class OwnOptions(Optionless):
    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> OwnOptions:
        if "bad" in options:
            raise ConfigError("bad", options["bad"], "must not be given")
        return cls(dict(options))


class Impostor(Optionless):
    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> object:
        return "no handler"


class WithDefaults(OwnOptions):
    @staticmethod
    def option_defaults() -> dict[str, Any]:
        return {"limit": 5}


class InstanceDefaults(OwnOptions):
    def option_defaults(self) -> dict[str, Any]:
        return {"limit": 5}


class RaisingDefaults(OwnOptions):
    @staticmethod
    def option_defaults() -> None:
        raise ValueError("one\ntwo")


class NoneDefaults(OwnOptions):
    @classmethod
    def option_defaults(cls) -> None: ...


class ListDefaults(OwnOptions):
    @classmethod
    def option_defaults(cls) -> list[str]:
        return ["ab"]


class NumberDefaults(OwnOptions):
    @classmethod
    def option_defaults(cls) -> dict[int, int]:
        return {1: 2}


class Nested:
    Inner = Optionless


class Orders(MessageHandler):
    ordering = "key"
    retry = Retry(attempts=3, on=OSError)

    def __init__(self, url: str, max_handler_time: str = "own") -> None:
        self.url, self.own = url, max_handler_time

    async def handle(self, message: object) -> None: ...


KINDS = (
    Orders,
    Lost,
    Plain,
    Optionless,
    OwnOptions,
    Impostor,
    WithDefaults,
    InstanceDefaults,
    RaisingDefaults,
    NoneDefaults,
    ListDefaults,
    NumberDefaults,
    Nested,
)


@pytest.fixture(autouse=True)
def made_up_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("made_up_handlers")
    for thing in KINDS:
        setattr(module, thing.__name__, thing)
    monkeypatch.setitem(sys.modules, "made_up_handlers", module)
    monkeypatch.setattr(handler_factory, "entry_points", INSTALLED.select)


def test_name_of_an_entry_point_builds_its_class_with_the_options() -> None:
    handler = build_handler("plain", {"path": "x", "limit": 3})
    assert isinstance(handler, Plain)
    assert (handler.path, handler.limit) == ("x", 3)


def test_module_and_class_builds_that_class() -> None:
    assert isinstance(build_handler("made_up_handlers:Optionless", {}), Optionless)


def test_module_and_nested_class_builds_that_class() -> None:
    assert isinstance(build_handler("made_up_handlers:Nested.Inner", {}), Optionless)


def test_class_with_from_options_is_built_by_it() -> None:
    handler = build_handler("made_up_handlers:OwnOptions", {"anything": 1})
    assert isinstance(handler, OwnOptions)
    assert handler.options == {"anything": 1}


def test_error_of_from_options_is_raised_unchanged() -> None:
    with pytest.raises(ConfigError, match=r"^bad = 1: must not be given$"):
        build_handler("made_up_handlers:OwnOptions", {"bad": 1})


@pytest.mark.parametrize(
    ("name", "defaults"),
    [("Plain", {"limit": 10}), ("Optionless", {}), ("OwnOptions", {}), ("WithDefaults", {"limit": 5})],
)
def test_defaults_are_those_of_arguments_or_option_defaults(name: str, defaults: dict[str, Any]) -> None:
    assert default_options(f"made_up_handlers:{name}") == defaults


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("InstanceDefaults", "fails with TypeError: "),
        ("RaisingDefaults", "fails with ValueError: one; "),
        ("NoneDefaults", "returns None; "),
        ("ListDefaults", "returns ['ab']; "),
        ("NumberDefaults", "returns {1: 2}; "),
    ],
)
def test_wrong_option_defaults_raise_handler_error(name: str, why: str) -> None:
    with pytest.raises(HandlerError) as raised:
        default_options(f"made_up_handlers:{name}")
    assert str(raised.value).startswith(f"handler 'made_up_handlers:{name}': option_defaults() {why}")
    assert str(raised.value).endswith(
        "; it must be a class or static method without arguments that returns a dictionary from options to values"
    )
    assert "\n" not in str(raised.value)


REFUSED = [
    (
        "plian",
        {},
        "no handler is called 'plian'; did you mean 'plain'? the installed handlers are 'broken', 'plain', "
        "and 'package.module:Class' names any other class",
    ),
    (
        "xyz",
        {},
        "no handler is called 'xyz'; the installed handlers are 'broken', 'plain', "
        "and 'package.module:Class' names any other class",
    ),
    (
        "broken",
        {},
        "handler 'broken': cannot import 'made_up_handlers_missing': No module named 'made_up_handlers_missing'",
    ),
    (
        "made_up_handlers_missing:X",
        {},
        "handler 'made_up_handlers_missing:X': cannot import 'made_up_handlers_missing': "
        "No module named 'made_up_handlers_missing'",
    ),
    (
        "made_up_handlers:Plane",
        {},
        "handler 'made_up_handlers:Plane': module 'made_up_handlers' has no 'Plane'",
    ),
    (
        "made_up_handlers:",
        {},
        "handler 'made_up_handlers:': must be 'package.module:Class'",
    ),
    (
        ":Plain",
        {},
        "handler ':Plain': must be 'package.module:Class'",
    ),
    (
        "made_up_handlers:Nested",
        {},
        "handler 'made_up_handlers:Nested' is no subclass of sarameya.ConsumerGroupHandler; those of sarameya.asyncio "
        "need a program of your own",
    ),
    (
        "made_up_handlers:Impostor",
        {},
        "handler 'made_up_handlers:Impostor': from_options returned a str, not a ConsumerGroupHandler",
    ),
    ("plain", {"limit": 1}, "handler 'plain': option 'path' is missing"),
]


@pytest.mark.parametrize(("name", "options", "message"), REFUSED)
def test_unbuildable_handler_is_reported_with_the_reason(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(HandlerError) as caught:
        build_handler(name, options)
    assert str(caught.value) == message


def test_unknown_option_is_reported_with_a_similar_one() -> None:
    with pytest.raises(ConfigError) as caught:
        build_handler("plain", {"path": "x", "limits": 3})
    assert str(caught.value) == "limits = 3: no such option; did you mean 'limit'?"


def test_option_for_a_class_without_options_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        build_handler("made_up_handlers:Optionless", {"path": "x"})
    assert str(caught.value) == "path = 'x': the handler takes no options"


def test_message_options_become_attributes_of_the_handler() -> None:
    options = {
        "url": "http://here",
        "concurrency": 50,
        "retry": {"attempts": 5},
        "retry_topics": {"delays": [60, 600], "on": ["OSError", "made_up_handlers:Lost"]},
        "dead_letters": {"topic": "{topic}.dead"},
        "circuit_breaker": {},
        "value_format": {"name": "avro", "registry": {"url": "http://registry:8081", "username": "a", "password": "b"}},
        "key_format": "string",
        "max_handler_time": "five",
    }
    handler: Any = build_handler("made_up_handlers:Orders", options)
    assert (handler.url, handler.own, handler.ordering, handler.concurrency) == ("http://here", "five", "key", 50)
    assert handler.retry == Retry(attempts=5, on=OSError), "other fields keep the values of the class"
    assert handler.retry_topics == RetryTopics([60, 600], on=(OSError, Lost))
    assert (handler.dead_letters, handler.circuit_breaker) == (DeadLetterTopic("{topic}.dead"), CircuitBreaker())
    registry = RegistryOptions(url="http://registry:8081", username="a", password="b")
    assert (handler.value_format, handler.key_format) == (Format("avro", registry=registry), "string")
    assert handler.max_handler_time is None, "an argument of the constructor has precedence"
    assert Orders.concurrency == 16


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"ordering": "keys"}, "ordering = 'keys': must be one of"),
        ({"retry": 3}, "retry = 3: must be a table of attempts, backoff, backoff_max, on"),
        ({"retry": {"atempts": 3}}, "retry.atempts = 3: no such option; did you mean 'attempts'?"),
        ({"retry": {"attempts": 0}}, "retry.attempts = 0: must be a whole number"),
        ({"retry": {"on": "Lost"}}, "retry.on = 'Lost': must be the name of a class: 'OSError', or "),
        ({"retry": {"on": "print"}}, "retry.on = "),
        ({"retry_topics": {"create": True}}, "retry_topics.delays = None: is required"),
        (
            {"value_format": {"name": "avro", "registry": {}}},
            "value_format.registry.url = None: is required",
        ),
        ({"concurency": 3}, "concurency = 3: no such option; did you mean 'concurrency'?"),
    ],
)
def test_wrong_message_option_is_reported_with_its_table(options: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        build_handler("made_up_handlers:Orders", {"url": "", **options})
    assert str(raised.value).startswith(error)


def test_defaults_of_message_options_are_those_of_the_class() -> None:
    defaults = default_options("made_up_handlers:Orders")
    assert defaults["retry"] == {"attempts": 3, "backoff": 0.1, "backoff_max": 30.0, "on": "OSError"}
    assert (defaults["ordering"], defaults["retry_topics"], defaults["max_handler_time"]) == ("key", None, "own")
