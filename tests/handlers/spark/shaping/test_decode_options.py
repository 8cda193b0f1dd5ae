from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sarameya import ConfigError
from sarameya_handlers.spark.shaping.decode_options import Decode


def decode(has_registry: bool = False, **options: Any) -> Decode:
    return Decode.from_options(
        "value", {f"value_{name}": given for name, given in options.items()}, has_registry=has_registry
    )


def test_default_format_is_bytes() -> None:
    assert decode() == decode(has_registry=True) == Decode()


def test_options_of_other_columns_are_ignored() -> None:
    assert Decode.from_options("key", {"value_format": "nonsense"}, has_registry=False) == Decode()


@pytest.mark.parametrize("kind", ["json", "avro"])
def test_registry_frames_records_unless_disabled(kind: str) -> None:
    assert decode(True, format=kind) == Decode(format=kind, framed=True)
    assert decode(True, format=kind, header="registry") == Decode(format=kind, framed=True)
    assert decode(True, format=kind, header="none", schema="{}") == Decode(format=kind, schema="{}")


def test_schema_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "schema"
    file.write_bytes(b'"long"')
    assert decode(format="avro", schema_file=str(file)).schema == '"long"'
    assert decode(format="protobuf", schema_file=str(file), message="a.B").schema == b'"long"'


def test_version_and_subject_select_a_schema() -> None:
    assert decode(True, format="avro", subject="s", version=3) == Decode(
        format="avro", subject="s", version=3, framed=True
    )


@pytest.mark.parametrize(
    ("options", "named", "expected"),
    [
        ({"format": "xml"}, "value_format", "must be one of 'bytes', 'string'"),
        ({"format": 5}, "value_format", "must be text"),
        ({"schema": "a int"}, "value_schema", "must not be set with the format 'bytes'"),
        ({"format": "string", "message": "a.B"}, "value_message", "must not be set with the format 'string'"),
        ({"format": "string", "header": "registry"}, "value_header", "only with json, avro or protobuf"),
        ({"format": "json"}, "value_schema", "is required for 'json', unless there is a registry"),
        ({"format": "json", "schema": ""}, "value_schema", "must be text that is not empty"),
        (
            {"format": "json", "schema": "a int", "message": "M"},
            "value_message",
            "must not be set with the format 'json'",
        ),
        ({"format": "json", "schema": "a int", "header": "registry"}, "value_header", "needs a registry"),
        ({"format": "json", "schema": "a int", "header": "yes"}, "value_header", "needs a registry"),
        ({"format": "json", "schema": "a int", "subject": "s"}, "value_subject", "must not be set with a schema"),
        ({"format": "avro", "schema": "{"}, "value_schema", "must be an Avro schema"),
        ({"format": "avro", "schema_file": "/not/there"}, "value_schema_file", "must be a file that can be read"),
        ({"format": "avro", "schema": "{}", "schema_file": "x"}, "value_schema_file", "set with schema"),
        ({"format": "protobuf"}, "value_message", "must name the message"),
        ({"format": "protobuf", "message": "a.B"}, "value_schema", "is required for 'protobuf'"),
        ({"format": "protobuf", "message": "a.B", "schema": "x"}, "value_schema", "must be schema_file for 'protobuf'"),
    ],
)
def test_invalid_option_is_refused_by_name(options: dict[str, Any], named: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected) as raised:
        decode(**options)
    assert raised.value.option == named


@pytest.mark.parametrize("version", ["newest", 0, "3", True])
def test_invalid_version_is_refused(version: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        decode(True, format="avro", version=version)
    assert raised.value.option == "value_version"
