"""Columns of a JSON Schema, as Spark's DDL. Pure.

A value that no column type can express (a number or an object, an object with any keys and values) becomes a string
with its JSON text: `from_json` produces it from any value, and nothing is lost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import attrs

from sarameya.registry.schemas import Schema
from sarameya_handlers.spark.shaping.errors import ShapeError
from sarameya_handlers.spark.tables.expressions import quoted

_TEXT = "string"
_SCALARS = {"string": _TEXT, "boolean": "boolean", "integer": "bigint", "number": "double"}
_BRANCHES = ("anyOf", "oneOf")


def ddl_of(schema: Schema, referred: Mapping[str, Schema]) -> str:
    """Return the columns of a schema whose records are objects. Raises ShapeError for others, and for a broken one."""
    where = f"JSON schema {schema.id}"
    try:
        documents = {name: json.loads(other.text) for name, other in referred.items()}
        documents[""] = json.loads(schema.text)
    except ValueError as error:
        raise ShapeError(f"{where} is not JSON: {error}") from error
    ddl = _TypeBuilder(documents, where).type_of(documents[""], "", ())
    if not ddl.startswith("struct<"):
        raise ShapeError(f"{where} describes no object with properties ({ddl}): give the columns as value_schema")
    return ddl


@attrs.frozen(slots=True)
class _TypeBuilder:
    """Builds DDL types from a schema.

    Attributes:
        documents: Schemas by the names with which others refer to them; "" is the schema itself.
        where: Name of the schema in errors.
    """

    documents: Mapping[str, Any]
    where: str

    def type_of(self, schema: Any, document: str, within: tuple[str, ...]) -> str:
        """Return a type. `within` has the references followed so far: a schema that contains itself becomes text."""
        if not isinstance(schema, dict):
            return _TEXT
        if "$ref" in schema:
            found = self._resolve(str(schema["$ref"]), document, within)
            return self.type_of(*found) if found else _TEXT
        for key in _BRANCHES:
            if key in schema:
                return self._one_of(schema[key], document, within)
        if fields := self._fields(schema, document, within):
            return f"struct<{', '.join(f'{quoted(name)}: {kind}' for name, kind in fields.items())}>"
        kinds = schema.get("type")
        named = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
        if len(named) != 1:
            return "double" if sorted(map(str, named)) == ["integer", "number"] else _TEXT
        if named[0] == "object":
            others = schema.get("additionalProperties")
            return f"map<string, {self.type_of(others, document, within)}>" if isinstance(others, dict) else _TEXT
        if named[0] == "array":
            return f"array<{self.type_of(schema.get('items', True), document, within)}>"
        return _SCALARS.get(str(named[0]), _TEXT)

    def _fields(self, schema: Any, document: str, within: tuple[str, ...]) -> dict[str, str]:
        """Return the properties of an object, including those of `allOf`; empty for anything else."""
        if not isinstance(schema, dict):
            return {}
        if "$ref" in schema:
            found = self._resolve(str(schema["$ref"]), document, within)
            return self._fields(*found) if found else {}
        fields: dict[str, str] = {}
        for part in schema.get("allOf", ()):
            fields |= self._fields(part, document, within)
        if schema.get("type") in ("object", ["object", "null"], ["null", "object"], None):
            properties = schema.get("properties", {})
            fields |= {str(name): self.type_of(field, document, within) for name, field in properties.items()}
        return fields

    def _one_of(self, branches: Any, document: str, within: tuple[str, ...]) -> str:
        """Return the type that all branches but null have; text if they have several."""
        named = [branch for branch in branches if not (isinstance(branch, dict) and branch.get("type") == "null")]
        types = {self.type_of(branch, document, within) for branch in named}
        return types.pop() if len(types) == 1 else _TEXT

    def _resolve(
        self, reference: str, document: str, within: tuple[str, ...]
    ) -> tuple[Any, str, tuple[str, ...]] | None:
        """Resolve a reference: the schema, its document, and the references followed. None for one followed before."""
        name, _, pointer = reference.partition("#")
        name = name or document
        if name not in self.documents:
            raise ShapeError(f"{self.where} refers to {reference!r}, which is not among its references in the registry")
        place = f"{name}#{pointer}"
        if place in within:
            return None
        found = self.documents[name]
        for step in filter(None, pointer.split("/")):
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            else:
                raise ShapeError(f"{self.where} refers to {reference!r}, which does not exist")
        return found, name, (*within, place)
