"""Records that carry the id of their schema: SQL for their headers, and lookups of their schemas in a registry.

A header is a zero byte and the schema id. A prefix is the header and, for Protobuf, the message's indexes (`wire.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import attrs

from sarameya.registry.client import MOST_UNKNOWN, Registry
from sarameya.registry.schemas import Schema
from sarameya.registry.wire import HEADER, Prefix, header
from sarameya_handlers.spark.shaping.errors import ShapeError
from sarameya_handlers.spark.tables.expressions import literal


@attrs.frozen(slots=True)
class WriterSchemas:
    """Writer schemas of records, by prefix.

    Attributes:
        schemas: The schema of each known prefix.
        problems: Reason why the records with another prefix cannot be read.
    """

    schemas: Mapping[bytes, Schema]
    problems: dict[bytes, str]

    @property
    def by_id(self) -> dict[int, Schema]:
        return {schema.id: schema for schema in self.schemas.values()}


def writer_schemas(registry: Registry, prefixes: Mapping[bytes, Prefix], kind: str) -> WriterSchemas:
    """Look up the schemas of these prefixes. A schema of another kind is a problem."""
    known = registry.schemas(prefix.schema_id for prefix in prefixes.values())
    schemas, problems = {}, {}
    for code, prefix in prefixes.items():
        schema = known.get(prefix.schema_id)
        if schema is None:
            problems[code] = _why_missing(registry, prefix.schema_id)
        elif schema.kind != kind:
            problems[code] = f"its schema {prefix.schema_id} is {schema.kind}, not {kind}"
        else:
            schemas[code] = schema
    return WriterSchemas(schemas, problems)


def _why_missing(registry: Registry, schema_id: int) -> str:
    if registry.is_unknown(schema_id):
        return f"its schema {schema_id} is unknown to {registry}"
    return f"its schema {schema_id} was not looked up: {registry} does not know {MOST_UNKNOWN} others of this batch"


@attrs.define(slots=True, eq=False)
class ReaderSchemas:
    """Reader schemas by subject.

    The latest version is looked up again only if records have a schema id that is new for the subject. Until then all
    batches have the same columns.
    """

    registry: Registry
    kind: str
    version: int | str = "latest"
    _found: dict[str, tuple[Schema, frozenset[int]]] = attrs.field(factory=dict)
    """Subject -> its reader schema, and the schema ids of its records so far."""

    def schema(self, subject: str, ids: Collection[int]) -> Schema:
        """Return the reader schema for records with these schema ids. Raises ShapeError for another kind."""
        schema, seen = self._found.get(subject, (None, frozenset[int]()))
        if schema is None or (self.version == "latest" and not seen.issuperset(ids)):
            schema = self.registry.version(subject, self.version)
            self._found[subject] = (schema, seen.union(ids, [schema.id]))
        if schema.kind != self.kind:
            raise ShapeError(
                f"the schema of subject {subject!r} is {schema.kind}, not {self.kind}: name another subject"
            )
        return schema


def header_in(column: str, ids: Iterable[int]) -> str:
    """Return an SQL condition: the column's bytes start with the header of one of these schema ids."""
    headers = ", ".join(f"X'{header(number).hex()}'" for number in sorted(ids))
    return f"substring({column}, 1, {HEADER}) in ({headers})" if headers else "false"


def body(column: str) -> str:
    """Return SQL for the bytes after the header."""
    return f"substring({column}, {HEADER + 1})"


def refuse(column: str, problem: str) -> str:
    """Return SQL that raises an error: `the <column> at offset <offset> <problem>`."""
    text = f"the {column.strip('`')} at offset "
    return f"raise_error(concat({literal(text)}, `offset`, {literal(f' {problem}')}))"
