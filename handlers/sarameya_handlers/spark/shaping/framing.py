"""Records that carry the id of their schema: which of their prefixes can be read, in SQL and by a registry."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import attrs

from sarameya_handlers.registry import Registry, Schema
from sarameya_handlers.registry.client import MOST_UNKNOWN
from sarameya_handlers.spark.shaping.errors import ShapeError
from sarameya_handlers.spark.shaping.wire import HEADER, Prefix
from sarameya_handlers.spark.tables.expressions import literal


@attrs.frozen(slots=True)
class Written:
    """The schemas that records were written with, by the prefixes that say so; and what is wrong with others."""

    schemas: Mapping[bytes, Schema]
    problems: dict[bytes, str]

    @property
    def by_id(self) -> dict[int, Schema]:
        return {schema.id: schema for schema in self.schemas.values()}


def written(registry: Registry, prefixes: Mapping[bytes, Prefix], kind: str) -> Written:
    """What `registry` knows of these prefixes; a schema that is not of this `kind` is a problem, too."""
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
    return Written(schemas, problems)


def _why_missing(registry: Registry, schema_id: int) -> str:
    if registry.is_unknown(schema_id):
        return f"its schema {schema_id} is unknown to {registry}"
    return f"its schema {schema_id} was not looked up: {registry} does not know {MOST_UNKNOWN} others of this batch"


@attrs.define(slots=True, eq=False)
class Readers:
    """The schemas that records are to be read as, by their subjects. The latest ones are asked for anew only when
    records were written with a schema that none was before: till then all landings have the same columns."""

    registry: Registry
    kind: str
    version: int | str = "latest"
    _found: dict[str, tuple[Schema, frozenset[int]]] = attrs.field(factory=dict)

    def schema(self, subject: str, ids: Collection[int]) -> Schema:
        """The one for records that have these ids. Raises ShapeError for one of another kind, and RegistryError."""
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
    """A condition: the bytes begin with one of these ids' headers."""
    headers = ", ".join(f"X'{header(number).hex()}'" for number in sorted(ids))
    return f"substring({column}, 1, {HEADER}) in ({headers})" if headers else "false"


def body(column: str) -> str:
    """What stands behind the header, in SQL."""
    return f"substring({column}, {HEADER + 1})"


def header(schema_id: int) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big")


def refuse(column: str, what: str) -> str:
    """An error that says which record of the partition it is, in SQL."""
    text = f"the {column.strip('`')} at offset "
    return f"raise_error(concat({literal(text)}, `offset`, {literal(f' {what}')}))"
