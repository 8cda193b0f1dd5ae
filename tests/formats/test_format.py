"""The options of a format."""

from __future__ import annotations

from typing import Any

import pytest

from sarameya import ConfigError, Format, RegistryOptions
from sarameya.formats.format import checked_format

URL = "http://registry:8081"


@pytest.mark.parametrize("url", [URL, [URL]])
def test_registry_can_be_given_as_a_url(url: Any) -> None:
    assert Format("avro", registry=url).registry == RegistryOptions(url=URL)


@pytest.mark.parametrize(
    ("name", "options", "named", "message"),
    [
        ("xml", {}, "name", "'bytes', 'string', 'json', 'avro', 'protobuf'"),
        ("json", {"registry": 5}, "registry", "the registry's URL"),
        ("json", {"registry": "registry:8081"}, "url", "begins with http"),
        ("string", {"registry": URL}, "registry", "'string'"),
        ("bytes", {"schema": "{}"}, "schema", "'bytes'"),
        ("protobuf", {"registry": URL, "schema": "{}"}, "schema", "whose type has the schema"),
        ("avro", {}, "schema", "is required"),
        ("avro", {"schema": "{"}, "schema", "as JSON"),
        ("avro", {"schema": ""}, "schema", "non-empty"),
        ("json", {"schema": "{}"}, "schema", "without a registry"),
        ("avro", {"schema": '"long"', "subject": "s"}, "subject", "without a registry"),
        ("avro", {"schema": '"long"', "register": True}, "register", "without a registry"),
        ("avro", {"registry": URL, "register": True}, "register", "without a schema"),
        ("avro", {"registry": URL, "register": 1}, "register", "true or false"),
        ("avro", {"registry": URL, "schema": '"long"', "version": 2}, "version", "with a schema"),
        ("avro", {"registry": URL, "version": 0}, "version", "'latest'"),
        ("avro", {"registry": URL, "version": True}, "version", "'latest'"),
    ],
)
def test_wrong_option_is_named(name: str, options: dict[str, Any], named: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        Format(name, **options)
    assert raised.value.option == named


def test_format_shows_no_secret() -> None:
    registry = RegistryOptions(url=URL, username="me", password="hidden")
    assert "hidden" not in repr(Format("avro", registry=registry))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("avro", "schema is required for 'avro', unless there is a registry: give a Format"),
        ("xml", "must be one of 'bytes'"),
        (5, "must be a Format, or one of"),
    ],
)
def test_name_of_a_format_is_checked(value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        checked_format("value_format", value)
    assert raised.value.option == "value_format"
    assert checked_format("value_format", "json") == Format("json")
