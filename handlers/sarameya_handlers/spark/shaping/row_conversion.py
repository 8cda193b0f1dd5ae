"""Lossless conversion of rows to a table's columns: the table's order, its wider types, nulls for missing columns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

from sarameya_handlers.spark.shaping.schemas import by_name, compare, fits
from sarameya_handlers.spark.tables.expressions import literal, quoted, type_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType


def conform(frame: DataFrame, table: StructType) -> DataFrame:
    """Return the frame with the table's columns, names and order, also within structs.

    Columns that the frame lacks are null, columns that the table lacks come last, and wider types stay. The caller must
    have checked that the differences from the table are allowed (`schemas.compare`).

    Raises:
        SchemaMismatchError: The frame or the table has two columns of one name.
    """
    compare(frame.schema, table)
    if frame.schema.simpleString() == table.simpleString():  # names and types, at any depth, in order
        return frame
    return frame.selectExpr(*(f"{sql} as {quoted(name)}" for name, sql in _fields(frame.schema, table, "", count())))


def _fields(rows: StructType, table: StructType, prefix: str, names: count[int]) -> Iterator[tuple[str, str]]:
    """Yield name and SQL expression of each field. In the SQL, `prefix` comes before the names of the rows' fields."""
    ours, theirs = by_name(rows), by_name(table)
    for key, field in theirs.items():
        if key in ours:
            yield field.name, _conformed(f"{prefix}{quoted(ours[key].name)}", ours[key].dataType, field.dataType, names)
        else:
            yield field.name, f"cast(null as {type_name(field.dataType)})"
    for key, field in ours.items():
        if key not in theirs:
            yield field.name, f"{prefix}{quoted(field.name)}"


def _conformed(value: str, rows: DataType, table: DataType, names: count[int]) -> str:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if rows == table:
        return value
    if isinstance(rows, StructType) and isinstance(table, StructType):
        fields = ", ".join(f"{literal(name)}, {sql}" for name, sql in _fields(rows, table, f"{value}.", names))
        return f"if({value} is null, null, named_struct({fields}))"
    each = f"e{next(names)}"
    if isinstance(rows, ArrayType) and isinstance(table, ArrayType):
        return f"transform({value}, {each} -> {_conformed(each, rows.elementType, table.elementType, names)})"
    if isinstance(rows, MapType) and isinstance(table, MapType):
        key = _conformed(f"{each}.key", rows.keyType, table.keyType, names)
        item = _conformed(f"{each}.value", rows.valueType, table.valueType, names)
        return f"map_from_entries(transform(map_entries({value}), {each} -> struct({key}, {item})))"
    # A wider type of the rows stays: the table's column is being widened.
    is_cast = rows.simpleString() != table.simpleString() and fits(rows, table)
    return f"cast({value} as {table.simpleString()})" if is_cast else value
