"""Avro by Spark's `from_avro`. Records with any schema of a subject are read with one schema, as Avro resolves them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from sarameya.registry.client import Registry
from sarameya.registry.schemas import Schema, SchemaKind
from sarameya.registry.wire import HEADER, Prefix, header
from sarameya_handlers.spark.shaping.errors import ShapeError
from sarameya_handlers.spark.shaping.formats.framing import (
    ReaderSchemas,
    body,
    header_in,
    refuse,
    writer_schemas,
)
from sarameya_handlers.spark.shaping.formats.plans import SqlPlan
from sarameya_handlers.spark.tables.expressions import literal

_PRIMITIVE = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_NAMED = frozenset(("record", "error", "enum", "fixed"))
_READ = "_sarameya_read"


@attrs.frozen(slots=True, kw_only=True)
class AvroCodec:
    """Decodes Avro records.

    Attributes:
        column: Name of the column.
        schema: Reader schema; None for the registry's.
        registry: Set if records carry the ids of their own schemas. Otherwise all records were written with `schema`.
        subject: Subject in the registry; None for the topic's own.
        readers: Source of reader schemas in the registry.
    """

    column: str
    schema: str | None = None
    registry: Registry | None = None
    subject: str | None = None
    readers: ReaderSchemas | None = None

    @property
    def with_message(self) -> bool | None:
        return None if self.registry is None else False

    def plan(self, topic: str, prefixes: Mapping[bytes, Prefix]) -> SqlPlan:
        if self.registry is None:
            assert self.schema is not None
            return _unframed(self.schema)
        found = writer_schemas(self.registry, prefixes, SchemaKind.AVRO)
        writers = {number: self._schema_text(schema) for number, schema in found.by_id.items()}
        reader = self.schema or self._reader(topic, writers)
        return SqlPlan(
            (lambda column: _by_id(column, writers, reader),),
            lambda column: (
                " or ".join(
                    f"({header_in(column, [number])} and ({_failed(body(column), text, reader)}))"
                    for number, text in writers.items()
                )
                or "false"
            ),
            found.problems,
        )

    def probe(self) -> SqlPlan:
        return _unframed(self.schema or '"long"')

    def _reader(self, topic: str, writers: Mapping[int, str]) -> str:
        assert self.readers is not None
        return self._schema_text(self.readers.schema(self.subject or f"{topic}-{self.column}", writers.keys()))

    def _schema_text(self, schema: Schema) -> str:
        assert self.registry is not None
        if not schema.references:
            return schema.text
        return with_references(schema, self.registry.referred(schema))


def _unframed(schema: str) -> SqlPlan:
    return SqlPlan(
        (lambda column: _from_avro(column, schema, schema, "FAILFAST"),),
        lambda column: f"{column} is not null and ({_failed(column, schema, schema)})",
    )


def _by_id(column: str, writers: Mapping[int, str], reader: str) -> str:
    branches = "".join(
        f"when substring({column}, 1, {HEADER}) = X'{header(number).hex()}' "
        f"then {_from_avro(body(column), text, reader, 'FAILFAST')} "
        for number, text in writers.items()
    )
    # `when false` sets the type of the expression, even if there are no records.
    return (
        f"case when {column} is null then null {branches}"
        f"when false then {_from_avro(column, reader, reader, 'FAILFAST')} "
        f"else {refuse(column, 'does not begin with the id of a known schema')} end"
    )


def _from_avro(column: str, writer: str, reader: str, mode: str) -> str:
    return f"from_avro({column}, {literal(writer)}, map('mode', '{mode}', 'avroSchema', {literal(reader)}))"


def _failed(column: str, writer: str, reader: str) -> str:
    """Return a condition: these bytes do not have the writer's schema, or cannot be read with the reader's schema.

    `from_avro` returns null for bytes that it cannot read, or for a record schema a struct of nulls. So the reader's
    schema gets one more field, which is null only then.
    """
    parsed = json.loads(reader)
    if not (isinstance(parsed, dict) and parsed.get("type") == "record"):
        return f"{_from_avro(column, writer, reader, 'PERMISSIVE')} is null"
    read = {"name": _READ, "type": "boolean", "default": True}
    with_read = json.dumps({**parsed, "fields": [*parsed["fields"], read]})
    return f"{_from_avro(column, writer, with_read, 'PERMISSIVE')}.{_READ} is null"


def with_references(schema: Schema, referred: Mapping[str, Schema]) -> str:
    """Return the schema's text with each type of another schema inlined at its first use.

    Raises:
        ShapeError: A schema is not valid JSON, or lacks a needed attribute.
    """
    try:
        definitions = {name: json.loads(other.text) for name, other in referred.items()}
        return json.dumps(_ReferenceInliner(definitions).inline(json.loads(schema.text), ""))
    except (ValueError, KeyError, TypeError) as error:
        raise ShapeError(f"Avro schema {schema.id}, or one that it refers to, is broken: {error!r}") from error


@attrs.frozen(slots=True)
class _ReferenceInliner:
    definitions: Mapping[str, Any]
    """Definitions of types by full name, from the referred schemas."""
    _defined: set[str] = attrs.field(factory=set)
    """Full names of the types that are defined in the result so far."""

    def inline(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, str):
            return self._inline_name(schema, namespace)
        if isinstance(schema, list):
            return [self.inline(branch, namespace) for branch in schema]
        kind = schema["type"]
        if kind in ("array", "map"):
            key = "items" if kind == "array" else "values"
            return {**schema, key: self.inline(schema[key], namespace)}
        if not isinstance(kind, str) or kind not in _NAMED:
            return {**schema, "type": self.inline(kind, namespace)}
        full = _full_name(schema["name"], schema.get("namespace", namespace))
        self._defined.add(full)
        own_namespace, _, name = full.rpartition(".")
        inlined = {**schema, "name": name, "namespace": own_namespace}
        if kind in ("record", "error"):
            inlined["fields"] = [
                {**field, "type": self.inline(field["type"], own_namespace)} for field in schema["fields"]
            ]
        return inlined

    def _inline_name(self, name: str, namespace: str) -> Any:
        full = name if name in self.definitions else _full_name(name, namespace)
        if name in _PRIMITIVE or full in self._defined or full not in self.definitions:
            return name
        return self.inline(self.definitions[full], "")


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
