"""Columns and partitions of a DataFrame in Iceberg's SQL: to create a table, add columns, or count partitions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sarameya_handlers.spark.iceberg.catalog import TableName
from sarameya_handlers.spark.shaping.schemas import TypeChange, fits
from sarameya_handlers.spark.tables.expressions import literal, quoted, type_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import DataType, StructType

_TRANSFORM = re.compile(r"(years?|months?|days?|hours?|date|bucket|truncate)\s*\((.*)\)", re.IGNORECASE | re.DOTALL)
_VARIANT = re.compile(r"(?<=[:<,])variant(?=[,>]|$)")
"""A type in the text of a schema. A field's name is followed by a colon."""
_DECIMAL = re.compile(r"decimal\(\d+,(?P<scale>\d+)\)")
_NAMES = {"year": "years", "month": "months", "day": "days", "hour": "hours", "date": "days"}


def create_table(
    name: TableName, schema: StructType, partition_by: Sequence[str], properties: Mapping[str, str]
) -> str:
    """Return the CREATE TABLE statement. All columns are nullable, even if the frame's are not.

    A table with a VARIANT has version 3 of Iceberg's format, which is the first one with this type.
    """
    if has_variant(schema):
        properties = {**properties, "format-version": "3"}
    columns = ", ".join(f"{quoted(field.name)} {type_name(field.dataType)}" for field in schema.fields)
    partitioned = f" PARTITIONED BY ({', '.join(map(_partition, partition_by))})" if partition_by else ""
    assignments = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())
    return f"CREATE TABLE IF NOT EXISTS {name.sql} ({columns}) USING iceberg{partitioned} TBLPROPERTIES ({assignments})"


def has_variant(columns: DataType) -> bool:
    """Return whether a column, or a field at any depth, is a VARIANT."""
    return _VARIANT.search(columns.simpleString()) is not None


def missing_columns(rows: DataType, table: DataType) -> Iterator[tuple[str, str]]:
    """Yield the columns and fields of `rows` that the table lacks, as quoted path and type.

    A missing struct is one of them, with all of its fields in its type.
    """
    for path, wanted, found in _columns(rows, table):
        if found is None:
            yield path, type_name(wanted)


def wider_columns(rows: DataType, table: DataType) -> Iterator[tuple[str, str]]:
    """Yield the columns and fields that have a wider type in `rows`, as quoted path and that type."""
    for path, wanted, found in _columns(rows, table):
        if found is not None and fits(found, wanted) and not fits(wanted, found):
            yield path, type_name(wanted)


def _columns(
    rows: DataType, table: DataType, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, DataType, DataType | None]]:
    """Yield each column and field of `rows` without columns of its own: quoted path, type, and the table's type.

    One that the table lacks is yielded with None, whatever columns it has.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(rows, StructType) and isinstance(table, StructType):
        existing = {field.name.lower(): field for field in table.fields}
        for field in rows.fields:
            if (same := existing.get(field.name.lower())) is None:
                yield ".".join(map(quoted, (*path, field.name))), field.dataType, None
            else:
                yield from _columns(field.dataType, same.dataType, (*path, same.name))
    elif isinstance(rows, ArrayType) and isinstance(table, ArrayType):
        yield from _columns(rows.elementType, table.elementType, (*path, "element"))
    elif isinstance(rows, MapType) and isinstance(table, MapType):
        yield from _columns(rows.valueType, table.valueType, (*path, "value"))
    else:
        yield ".".join(map(quoted, path)), rows, table


def widens(change: TypeChange) -> bool:
    """Return whether Iceberg can widen a column in this way, without rewriting files.

    Source: Iceberg's specification, "Schema Evolution".
    """
    if (change.table, change.rows) in (("int", "bigint"), ("float", "double")):
        return True
    table, rows = _DECIMAL.fullmatch(change.table), _DECIMAL.fullmatch(change.rows)
    return table is not None and rows is not None and table["scale"] == rows["scale"]


def partition_values(name: TableName, partition_by: Sequence[str]) -> list[str]:
    """Return the SQL expressions whose values are a table's partitions."""
    return [_value(name, part.strip()) for part in partition_by]


def partitioning(described: Sequence[Sequence[str | None]]) -> tuple[str, ...]:
    """Return a table's partitioning from the rows of its `DESCRIBE TABLE`."""
    parts: list[str] = []
    section = ""
    for column, kind, *_ in described:
        if column and column.startswith("# "):
            # After "# Partition Information" another such line repeats the column titles.
            section = section if column == "# col_name" else column
        elif not column:
            section = ""
        elif section == "# Partition Information":
            parts.append(quoted(column))
        elif section == "# Partitioning":
            parts.append(kind or "")
    return tuple(parts)


def same_partitioning(left: Sequence[str], right: Sequence[str]) -> bool:
    """Return whether two partitionings are equal, though perhaps in different notations. Case does not count."""
    return [_normal(part) for part in left] == [_normal(part) for part in right]


def _normal(part: str) -> str:
    if match := _TRANSFORM.fullmatch(part.strip()):
        name = match[1].lower()
        inside = re.sub(r"[`\s]", "", match[2]).lower()
        return f"{_NAMES.get(name, name)}({inside})"
    return part.strip().strip("`").lower()


def _partition(part: str) -> str:
    return part if _TRANSFORM.fullmatch(part.strip()) or part.startswith("`") else quoted(part)


def _value(name: TableName, part: str) -> str:
    match = _TRANSFORM.fullmatch(part)
    if match is None:
        return part if part.startswith("`") else quoted(part)
    transform = match[1].lower()
    return f"{name.procedure(_NAMES.get(transform, transform))}({match[2]})"
