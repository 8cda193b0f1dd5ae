"""JSON by Spark's `from_json`, and plain text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from sarameya.registry.client import Registry
from sarameya.registry.schemas import SchemaKind
from sarameya.registry.wire import HEADER, Prefix
from sarameya_handlers.spark.shaping.formats import json_leaves as leaves
from sarameya_handlers.spark.shaping.formats.framing import ReaderSchemas, body, header_in, refuse, writer_schemas
from sarameya_handlers.spark.shaping.formats.json_faults import describe_fault
from sarameya_handlers.spark.shaping.formats.json_schema import ddl_of
from sarameya_handlers.spark.shaping.formats.plans import SqlPlan, replace_column
from sarameya_handlers.spark.tables.expressions import literal, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_CORRUPT = "_sarameya_corrupt"


@attrs.frozen(slots=True)
class StringCodec:
    """Decodes UTF-8 text. Spark itself does not check it, and invalid text would break every reader of the table."""

    with_message: bool | None = None

    def plan(self, topic: str, prefixes: Mapping[bytes, Prefix]) -> SqlPlan:
        return SqlPlan((_utf8_text,), _is_not_utf8)

    def probe(self) -> SqlPlan:
        return self.plan("", {})


@attrs.frozen(slots=True, kw_only=True)
class JsonCodec:
    """Decodes records that are one JSON value each.

    Attributes:
        column: Name of the column.
        ddl: The columns; None for those of the registry's schema.
        registry: Set if records carry their schemas' ids.
        subject: Subject in the registry; None for the topic's own.
        readers: Source of reader schemas in the registry.
    """

    column: str
    ddl: str | None = None
    registry: Registry | None = None
    subject: str | None = None
    readers: ReaderSchemas | None = None

    @property
    def with_message(self) -> bool | None:
        return None if self.registry is None else False

    def plan(self, topic: str, prefixes: Mapping[bytes, Prefix]) -> JsonPlan:
        if self.registry is None:
            assert self.ddl is not None
            return JsonPlan(self.ddl)
        found = writer_schemas(self.registry, prefixes, SchemaKind.JSON)
        ids = found.by_id
        ddl = self.ddl or self._ddl_in_registry(topic, ids)

        def unframed(column: str) -> str:
            return (
                f"case when {column} is null then null when {header_in(column, ids)} then {body(column)} "
                f"else {refuse(column, 'does not begin with the id of a known schema')} end"
            )

        return JsonPlan(ddl, body, unframed, lambda column: header_in(column, ids), found.problems)

    def probe(self) -> JsonPlan:
        return JsonPlan(self.ddl or "probed string")

    def _ddl_in_registry(self, topic: str, ids: Mapping[int, object]) -> str:
        assert self.registry is not None
        assert self.readers is not None
        schema = self.readers.schema(self.subject or f"{topic}-{self.column}", ids.keys())
        return ddl_of(schema, self.registry.referred(schema))


def _utf8_text(column: str) -> str:
    text = f"cast({column} as string)"
    return f"case when {column} is null or is_valid_utf8({text}) then {text} else {refuse(column, 'is no UTF-8')} end"


def _is_not_utf8(column: str) -> str:
    return f"not is_valid_utf8(cast({column} as string))"


_SURROGATE = r"\\u[dD]"
_HALF = (
    rf"(?<!\\)(\\\\)*({_SURROGATE}[89abAB][0-9a-fA-F]{{2}}(?!{_SURROGATE}[c-fC-F])"
    rf"|(?<!{_SURROGATE}[89abAB][0-9a-fA-F]{{2}}){_SURROGATE}[c-fC-F])"
)
"""An escaped half of a surrogate pair. Spark would replace it by a question mark."""


def _has_half_pair(text: str) -> str:
    # Few records have one. A regular expression on each record would cost more than everything else here.
    any_pair = f"(contains({text}, {literal(chr(92) + 'ud')}) or contains({text}, {literal(chr(92) + 'uD')}))"
    return f"({any_pair} and {text} rlike {literal(_HALF)})"


@attrs.frozen(slots=True)
class JsonPlan:
    """Decodes JSON of one type.

    Attributes:
        ddl: The type.
        body: SQL for the JSON within a record's bytes.
        unframed: The same, but raises an error for a record without a known header.
        framed_if: Condition that a record has a known header.
        unknown: Reasons by prefix, see `Plan`.
    """

    ddl: str
    body: Callable[[str], str] = lambda column: column
    unframed: Callable[[str], str] = lambda column: column
    framed_if: Callable[[str], str] = lambda column: "true"
    unknown: Mapping[bytes, str] = attrs.field(factory=dict)

    def decode(self, frame: DataFrame, column: str) -> DataFrame:
        kind = self._kind(frame)
        name = quoted(column)
        steps = [self.unframed(name), _utf8_text(name), self._checked(name, kind), self._parsed(name, kind, "FAILFAST")]
        steps.append(
            f"case when {name} is null then null when {_is_one(name)} then {name}[0] "
            f"else {refuse(name, 'is not one JSON value')} end"
        )
        if leaves.is_special(kind):
            inexact = refuse(name, "has a time, a number or a map that its column cannot hold")
            steps.append(f"if({leaves.is_exact(name, kind)}, {leaves.converted(name, kind)}, {inexact})")
        for step in steps:
            frame = replace_column(frame, column, step)
        return frame

    def undecodable(self, frame: DataFrame, column: str, records: pa.Table) -> dict[int, str]:
        kind = self._kind(frame)
        condition = f"({self.framed_if(quoted(column))}) and ({self._undecodable_if(self.body(quoted(column)), kind)})"
        found = frame.selectExpr("offset", f"({condition}) as bad").filter("bad").select("offset").collect()
        bad = [row["offset"] for row in found]
        bodies = self._bodies(bad[:_MAX_DESCRIBED], column, records)
        return {offset: (offset in bodies and describe_fault(bodies[offset], kind)) or "" for offset in bad}

    def _undecodable_if(self, column: str, kind: DataType) -> str:
        text = f"cast({column} as string)"
        parsed = self._parsed(text, kind, "PERMISSIVE")
        # The corrupt-record column reports a wrong type inside the outermost object, but nothing inside an array.
        fields = literal(f"value {leaves.parsed_type(kind)}, {_CORRUPT} string")
        options = _options("PERMISSIVE")
        corrupt = f"""from_json(concat('{{"value":', {text}, '}}'), {fields}, {options}).{_CORRUPT}"""
        conditions = [_is_not_utf8(column), _has_half_pair(text), f"{parsed} is null", f"not ({_is_one(parsed)})"]
        conditions += [f"{corrupt} is not null", leaves.rounded(text, kind)]
        if leaves.is_special(kind):
            conditions.append(f"not ({leaves.is_exact(f'get({parsed}, 0)', kind)})")
        return f"{column} is not null and ({' or '.join(conditions)})"

    def _checked(self, column: str, kind: DataType) -> str:
        """Return SQL for the text. It raises an error if `from_json` would silently change a value."""
        half = f"when {_has_half_pair(column)} then {refuse(column, 'has half of a surrogate pair')}"
        rounded = leaves.rounded(column, kind)
        digits = f"when {rounded} then {refuse(column, 'has a number with more digits than its column')}"
        return f"case {half} {digits if rounded != 'false' else ''} else {column} end"

    def _parsed(self, text: str, kind: DataType, mode: str) -> str:
        """Return SQL that parses the text as the first element of an array, followed by nulls.

        `from_json` stops at the end of a value: anything after it, perhaps another record, would be lost silently, and
        empty text would be null like a tombstone. It also stops at the end of the array: if the text closes the array
        itself, the nulls are missing.
        """
        elements = literal(f"array<{leaves.parsed_type(kind)}>")
        return f"from_json(concat('[', {text}, {literal(_NULLS)}), {elements}, {_options(mode)})"

    def _kind(self, frame: DataFrame) -> DataType:
        """Return the type of the DDL, as Spark parses it. Computes no rows."""
        ddl = self.ddl
        kind = ddl if ddl.lstrip().lower().startswith(("struct<", "array<", "map<")) else f"struct<{ddl}>"
        return frame.selectExpr(f"from_json('', {literal(kind)}) as kind").schema["kind"].dataType

    def _bodies(self, offsets: Sequence[int], column: str, records: pa.Table) -> dict[int, bytes]:
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = records.filter(pc.is_in(records["offset"], value_set=pa.array(offsets, pa.int64())))
        skipped = 0 if self.body("x") == "x" else HEADER
        return {
            offset: value[skipped:]
            for offset, value in zip(wanted["offset"].to_pylist(), wanted[column].to_pylist(), strict=True)
        }


_NULL_COUNT = 7
_NULLS = ",null" * _NULL_COUNT + "]"


def _is_one(array: str) -> str:
    """Return a condition: the array has one value, followed only by our own nulls."""
    return f"size({array}) = {_NULL_COUNT + 1} and forall(slice({array}, 2, {_NULL_COUNT}), x -> x is null)"


_MAX_DESCRIBED = 1_000
"""Maximum number of records whose faults are described. If more are bad, usually all have the same fault."""


def _options(mode: str) -> str:
    options = {
        "mode": mode,
        "allowSingleQuotes": "false",
        "allowNonNumericNumbers": "false",
        # The default is a name that a record's own field may have. Spark would use such a field for corrupt records.
        "columnNameOfCorruptRecord": _CORRUPT,
    }
    return f"map({', '.join(f'{literal(key)}, {literal(value)}' for key, value in options.items())})"
