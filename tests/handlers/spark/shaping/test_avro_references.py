from __future__ import annotations

import json
from typing import Any

import fastavro
import pytest

from sarameya.registry.schemas import Schema
from sarameya_handlers.spark.shaping.errors import ShapeError
from sarameya_handlers.spark.shaping.formats.avro_codec import with_references


def record(name: str, namespace: str | None = None, **fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "record", "name": name}
    if namespace is not None:
        made["namespace"] = namespace
    return {**made, "fields": [{"name": field, "type": kind} for field, kind in fields.items()]}


def inlined(top: Any, **others: Any) -> Any:
    referred = {name.replace("__", "."): Schema(1, "AVRO", json.dumps(other)) for name, other in others.items()}
    return json.loads(with_references(Schema(7, "AVRO", json.dumps(top)), referred))


ADDRESS = record("Address", "n", city="string")


def test_referenced_type_is_defined_at_its_first_use() -> None:
    top = record("Order", "n", a="n.Address", b=["null", "Address"], c={"type": "array", "items": "n.Address"})
    made = inlined(top, n__Address=ADDRESS)
    assert made["fields"][0]["type"] == ADDRESS
    assert made["fields"][1]["type"] == ["null", "Address"]
    assert fastavro.parse_schema(made)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ({"type": "string"}, {"type": "string"}),
        (["null", "n.Address"], ["null", ADDRESS]),
        ({"type": "n.Address"}, {"type": ADDRESS}),
    ],
)
def test_type_within_a_type_is_resolved(kind: Any, expected: Any) -> None:
    made = inlined(record("Order", "n", a={"type": kind}), n__Address=ADDRESS)
    assert made["fields"][0]["type"] == {"type": expected}


def test_name_inherits_the_enclosing_namespace() -> None:
    made = inlined(record("Order", "n", a=record("Inner", None, x="Address")), n__Address=ADDRESS)
    assert made["fields"][0]["type"]["fields"][0]["type"] == ADDRESS


def test_references_of_references_are_defined() -> None:
    made = inlined(
        record("Order", "n", a={"type": "map", "values": "m.Person"}),
        m__Person=record("Person", "m", home=["null", "n.Address"]),
        n__Address=ADDRESS,
    )
    assert fastavro.parse_schema(made)
    assert made["fields"][0]["type"]["values"]["fields"][0]["type"][1] == ADDRESS


def test_union_of_references_and_enums_is_defined() -> None:
    kind = {"type": "enum", "name": "Kind", "namespace": "n", "symbols": ["A"]}
    assert inlined(["n.Kind", "n.Address"], n__Kind=kind, n__Address=ADDRESS) == [kind, ADDRESS]


def test_own_definition_precedes_a_reference() -> None:
    own = record("Address", "n", street="string")
    made = inlined(record("Order", "n", a=own, b="n.Address"), n__Address=ADDRESS)
    assert [field["type"] for field in made["fields"]] == [own, "n.Address"]


def test_logical_types_are_kept() -> None:
    top = record("Order", "n", at={"type": "long", "logicalType": "timestamp-millis"}, a="n.Address")
    assert inlined(top, n__Address=ADDRESS)["fields"][0]["type"] == {"type": "long", "logicalType": "timestamp-millis"}


@pytest.mark.parametrize("text", ["{", '{"type": "record", "name": "x"}', '{"name": "x"}', "5"])
def test_broken_schema_is_refused(text: str) -> None:
    with pytest.raises(ShapeError, match="Avro schema 7, or one that it refers to, is broken"):
        with_references(Schema(7, "AVRO", text), {})
