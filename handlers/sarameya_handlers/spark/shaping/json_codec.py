"""Text, and JSON, by Spark's `from_json`."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from sarameya_handlers.registry import Registry, SchemaKind
from sarameya_handlers.spark.shaping.expressions import literal
from sarameya_handlers.spark.shaping.framing import Readers, body, header_in, refuse, written
from sarameya_handlers.spark.shaping.json_schema import ddl_of
from sarameya_handlers.spark.shaping.plans import Expression, SqlPlan
from sarameya_handlers.spark.shaping.wire import Prefix

_CORRUPT = "_sarameya_corrupt"


@attrs.frozen(slots=True)
class StringCodec:
    """UTF-8, which Spark itself would not look at: what is none would fail every reader of the table."""

    with_message: bool | None = None

    def plan(self, topic: str, prefixes: Mapping[bytes, Prefix]) -> SqlPlan:
        return SqlPlan((_text,), _no_text)

    def probe(self) -> SqlPlan:
        return self.plan("", {})


@attrs.frozen(slots=True, kw_only=True)
class JsonCodec:
    """One JSON value a record, with the columns of `ddl`, or else those of the schema in the registry. `registry` means
    that records carry their schemas' ids; `subject` None the topic's own."""

    column: str
    ddl: str | None = None
    registry: Registry | None = None
    subject: str | None = None
    readers: Readers | None = None

    @property
    def with_message(self) -> bool | None:
        return None if self.registry is None else False

    def plan(self, topic: str, prefixes: Mapping[bytes, Prefix]) -> SqlPlan:
        if self.registry is None:
            assert self.ddl is not None
            return _json_plan(self.ddl)
        found = written(self.registry, prefixes, SchemaKind.JSON)
        ids = found.by_id
        ddl = self.ddl or self._ddl_in_registry(topic, ids)

        def unframed(column: str) -> str:
            return (
                f"case when {column} is null then null when {header_in(column, ids)} then {body(column)} "
                f"else {refuse(column, 'does not begin with the id of a schema that is known')} end"
            )

        plan = _json_plan(ddl)
        return SqlPlan(
            (unframed, *plan.steps),
            lambda column: f"{header_in(column, ids)} and ({plan.undecodable_if(body(column))})",
            found.problems,
        )

    def probe(self) -> SqlPlan:
        return _json_plan(self.ddl or "probed string")

    def _ddl_in_registry(self, topic: str, ids: Mapping[int, object]) -> str:
        assert self.registry is not None
        assert self.readers is not None
        schema = self.readers.schema(self.subject or f"{topic}-{self.column}", ids.keys())
        return ddl_of(schema, self.registry.referred(schema))


def _text(column: str) -> str:
    text = f"cast({column} as string)"
    return f"case when {column} is null or is_valid_utf8({text}) then {text} else {refuse(column, 'is no UTF-8')} end"


def _no_text(column: str) -> str:
    return f"not is_valid_utf8(cast({column} as string))"


def _json_plan(ddl: str) -> SqlPlan:
    """As the only element of an array: `from_json` itself stops reading at the end of a value, and what stands behind
    it, another record maybe, would be lost without a word; and no text at all would be null, as a tombstone is."""
    kind = ddl if ddl.lstrip().lower().startswith(("struct<", "array<", "map<")) else f"struct<{ddl}>"
    elements = literal(f"array<{kind}>")

    def only(column: str) -> str:
        return (
            f"case when {column} is null then null when size({column}) = 1 then {column}[0] "
            f"else {refuse(column, 'is not one JSON value')} end"
        )

    def undecodable(column: str) -> str:
        text = f"cast({column} as string)"
        parsed = f"from_json(concat('[', {text}, ']'), {elements}, map('mode', 'PERMISSIVE'))"
        # What is of the wrong type inside is told of by a field of the outermost object, and by nothing in an array.
        options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{_CORRUPT}')"
        fields = literal(f"value {kind}, {_CORRUPT} string")
        corrupt = f"""from_json(concat('{{"value":', {text}, '}}'), {fields}, {options}).{_CORRUPT}"""
        conditions = (_no_text(column), f"{parsed} is null", f"size({parsed}) != 1", f"{corrupt} is not null")
        return f"{column} is not null and ({' or '.join(conditions)})"

    steps: tuple[Expression, ...] = (
        _text,
        lambda column: f"from_json(concat('[', {column}, ']'), {elements}, map('mode', 'FAILFAST'))",
        only,
    )
    return SqlPlan(steps, undecodable)
