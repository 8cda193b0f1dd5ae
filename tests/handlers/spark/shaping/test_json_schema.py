from __future__ import annotations

import json
from typing import Any

import pytest

from sarameya.registry.schemas import Reference, Schema
from sarameya_handlers.spark.shaping.errors import ShapeError
from sarameya_handlers.spark.shaping.formats.json_schema import ddl_of


def schema(text: Any, *references: str) -> Schema:
    return Schema(7, "JSON", json.dumps(text), tuple(Reference(name, name, 1) for name in references))


def column(field: Any, **more: Any) -> str:
    """Return the column type of a property with this schema."""
    made = ddl_of(schema({"type": "object", "properties": {"x": field}, **more}), {})
    assert made.startswith("struct<`x`: ")
    return made.removeprefix("struct<`x`: ")[:-1]


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        ({"type": "integer"}, "bigint"),
        ({"type": "number"}, "double"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "string", "format": "date-time"}, "string"),
        ({"type": ["null", "integer"]}, "bigint"),
        ({"type": ["integer", "number"]}, "double"),
        ({"oneOf": [{"type": "null"}, {"type": "number"}]}, "double"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "string"),
        ({"type": ["integer", "string"]}, "string"),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>"),
        ({"type": "array"}, "array<string>"),
        ({"type": "object", "properties": {"a b": {"type": "number"}}}, "struct<`a b`: double>"),
        ({"properties": {"a": {"type": "number"}}}, "struct<`a`: double>"),
        ({"type": ["object", "null"], "properties": {"a": True}}, "struct<`a`: string>"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string, bigint>"),
        ({"type": "object"}, "string"),
        ({"enum": ["a", 5]}, "string"),
        ({}, "string"),
        (True, "string"),
    ],
)
def test_property_becomes_a_column(field: Any, kind: str) -> None:
    assert column(field) == kind


def test_definitions_are_resolved() -> None:
    definitions = {"a/b": {"type": "integer"}, "c": {"$ref": "#/$defs/a~1b"}}
    assert column({"$ref": "#/$defs/c"}, **{"$defs": definitions}) == "bigint"
    either = {"either": [{"type": "string"}, {"type": "integer"}]}
    assert column({"$ref": "#/$defs/either/1"}, **{"$defs": either}) == "bigint"


def test_recursive_schema_ends_as_text() -> None:
    tree = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "kids": {"items": {"$ref": "#"}, "type": "array"}},
    }
    assert ddl_of(schema(tree), {}) == (
        "struct<`name`: string, `kids`: array<struct<`name`: string, `kids`: array<string>>>>"
    )


def test_all_of_merges_properties_of_other_documents() -> None:
    base = schema({"properties": {"id": {"$ref": "#/definitions/id"}}, "definitions": {"id": {"type": "integer"}}})
    order = schema({"allOf": [{"$ref": "base.json"}, {"properties": {"b": {"type": "string"}}}]}, "base.json")
    assert ddl_of(order, {"base.json": base}) == "struct<`id`: bigint, `b`: string>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ({"type": "string"}, "describes no object with properties .string.: give the columns as value_schema"),
        ({"type": "array", "items": {"type": "object"}}, "describes no object"),
        ({"properties": {"x": {"$ref": "other.json"}}}, "'other.json', which is not among its references"),
        ({"properties": {"x": {"$ref": "#/nowhere"}}}, "'#/nowhere', which does not exist"),
        ({"properties": {"x": {"$ref": "#/either/1"}}, "either": []}, "'#/either/1', which does not exist"),
    ],
)
def test_schema_without_columns_is_refused(text: Any, expected: str) -> None:
    with pytest.raises(ShapeError, match=f"JSON schema 7 .*{expected}"):
        ddl_of(schema(text), {})


def test_schema_that_is_not_json_is_refused() -> None:
    with pytest.raises(ShapeError, match="JSON schema 7 is not JSON"):
        ddl_of(Schema(7, "JSON", "{"), {})
