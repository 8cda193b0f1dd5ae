"""A DataFrame's columns as Iceberg's SQL has them: to create a table, to add to it, to count what it partitions by."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sarameya_handlers.spark.iceberg.catalog import TableName
from sarameya_handlers.spark.shaping.expressions import literal, quoted, type_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import DataType, StructType

_TRANSFORM = re.compile(r"(years?|months?|days?|hours?|date|bucket|truncate)\s*\((.*)\)", re.IGNORECASE | re.DOTALL)
_NAMES = {"year": "years", "month": "months", "day": "days", "hour": "hours", "date": "days"}


def create_table(
    name: TableName, schema: StructType, partition_by: Sequence[str], properties: Mapping[str, str]
) -> str:
    """The statement. Columns may be null, whatever those of this frame may be."""
    columns = ", ".join(f"{quoted(field.name)} {type_name(field.dataType)}" for field in schema.fields)
    partitioned = f" PARTITIONED BY ({', '.join(map(_partition, partition_by))})" if partition_by else ""
    said = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())
    return f"CREATE TABLE IF NOT EXISTS {name.sql} ({columns}) USING iceberg{partitioned} TBLPROPERTIES ({said})"


def missing_columns(rows: DataType, table: DataType, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """The columns and fields of `rows` that the table lacks: each its quoted path, and its type. A struct that is
    missing is one of these, with all that is in it."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(rows, StructType) and isinstance(table, StructType):
        there = {field.name.lower(): field for field in table.fields}
        for field in rows.fields:
            if (same := there.get(field.name.lower())) is None:
                yield ".".join(map(quoted, (*path, field.name))), type_name(field.dataType)
            else:
                yield from missing_columns(field.dataType, same.dataType, (*path, same.name))
    elif isinstance(rows, ArrayType) and isinstance(table, ArrayType):
        yield from missing_columns(rows.elementType, table.elementType, (*path, "element"))
    elif isinstance(rows, MapType) and isinstance(table, MapType):
        yield from missing_columns(rows.valueType, table.valueType, (*path, "value"))


def partition_values(name: TableName, partition_by: Sequence[str]) -> list[str]:
    """What a table so partitioned tells rows apart by, as expressions of Spark's SQL."""
    return [_value(name, one.strip()) for one in partition_by]


def partitioning(described: Sequence[Sequence[str | None]]) -> tuple[str, ...]:
    """What a table is partitioned by, out of the rows of its `DESCRIBE TABLE`."""
    parts: list[str] = []
    section = ""
    for column, kind, *_ in described:
        if column and column.startswith("# "):
            # Behind "# Partition Information" another such line repeats the titles of the columns.
            section = section if column == "# col_name" else column
        elif not column:
            section = ""
        elif section == "# Partition Information":
            parts.append(quoted(column))
        elif section == "# Partitioning":
            parts.append(kind or "")
    return tuple(parts)


def same_partitioning(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two ways to write it say the same."""
    return [_plain(part) for part in one] == [_plain(part) for part in other]


def _plain(part: str) -> str:
    if match := _TRANSFORM.fullmatch(part.strip()):
        name = match[1].lower()
        inside = re.sub(r"[`\s]", "", match[2])
        return f"{_NAMES.get(name, name)}({inside})"
    return part.strip().strip("`")


def _partition(part: str) -> str:
    return part if _TRANSFORM.fullmatch(part.strip()) or part.startswith("`") else quoted(part)


def _value(name: TableName, part: str) -> str:
    match = _TRANSFORM.fullmatch(part)
    if match is None:
        return part if part.startswith("`") else quoted(part)
    said = match[1].lower()
    return f"{name.procedure(_NAMES.get(said, said))}({match[2]})"
