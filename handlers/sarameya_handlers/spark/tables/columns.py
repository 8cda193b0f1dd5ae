"""Columns in Spark's JSON notation of a schema (`StructType.jsonValue()`). Pure.

Only `struct` needs pyspark. An audit, and a process that commits staged files directly, do without it.

Every column of a Parquet directory is nullable, even if the columns of some rows are not: rows that landed earlier may
lack a column that was added later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sarameya_handlers.spark.errors import LandingError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

Columns = Mapping[str, Any]
"""`{"type": "struct", "fields": [{"name": ..., "type": ..., "nullable": ..., "metadata": ...}, ...]}`"""

_NULLS = ("nullable", "containsNull", "valueContainsNull")
_ATOMIC = {
    "bool": "boolean",
    "int8": "byte",
    "int16": "short",
    "int32": "integer",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date32[day]": "date",
}
"""Name of an Arrow type -> name of the Spark type."""


def nullable(kind: Any) -> Any:
    """Return the same type with every column, field and element nullable."""
    if not isinstance(kind, Mapping):
        return kind
    copy: dict[str, Any] = {key: True if key in _NULLS else value for key, value in kind.items()}
    if "fields" in copy:
        copy["fields"] = [{**field, "nullable": True, "type": nullable(field["type"])} for field in copy["fields"]]
    return copy | {key: nullable(copy[key]) for key in ("elementType", "keyType", "valueType") if key in copy}


def holds(table: Any, rows: Any) -> bool:
    """Return whether a file with columns `rows` can be read with the columns `table`, which may have more.

    Columns that both have must agree in name, including case, and in type.
    """
    if not (isinstance(table, Mapping) and isinstance(rows, Mapping)):
        return bool(table == rows)
    if table.get("type") != rows.get("type"):
        return False
    if table["type"] == "struct":
        types = {field["name"]: field["type"] for field in table["fields"]}
        return all(field["name"] in types and holds(types[field["name"]], field["type"]) for field in rows["fields"])
    inside = ("elementType", "keyType", "valueType", "class", "pyClass")
    return all(holds(table.get(key), rows.get(key)) for key in inside)


def merged(table: Any, rows: Any) -> Any:
    """Return the table's columns followed by columns that only the rows have, also within structs.

    If both have a column, the table's is used. All columns must be nullable.
    """
    if not (isinstance(table, Mapping) and isinstance(rows, Mapping)):
        return table
    if table["type"] == rows["type"] == "struct":
        row_fields = {field["name"].lower(): field for field in rows["fields"]}
        table_names = {field["name"].lower() for field in table["fields"]}
        existing = [
            {**field, "type": merged(field["type"], row_fields[key]["type"])}
            if (key := field["name"].lower()) in row_fields
            else field
            for field in table["fields"]
        ]
        return {**table, "fields": existing + [field for key, field in row_fields.items() if key not in table_names]}
    inside = [key for key in ("elementType", "keyType", "valueType") if key in table and key in rows]
    return {**table, **{key: merged(table[key], rows[key]) for key in inside}}


def struct(columns: Columns) -> StructType:
    """Return the columns as a Spark type."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(dict(columns))


def of_arrow(schema: pa.Schema) -> dict[str, Any]:
    """Return the columns that Spark finds in a file of this schema. Raises LandingError for a type not in Spark."""
    return _struct(schema)


def arrow_types(table: Columns) -> dict[str, pa.DataType]:
    """Return the Arrow type of each column that has one of the types in `_ATOMIC`."""
    import pyarrow as pa

    by_spark = {spark: pa.type_for_alias(arrow.partition("[")[0]) for arrow, spark in _ATOMIC.items()}
    return {
        field["name"]: by_spark[field["type"]]
        for field in table["fields"]
        if isinstance(field["type"], str) and field["type"] in by_spark
    }


def _struct(fields: Any) -> dict[str, Any]:
    columns = [{"name": field.name, "type": _type(field), "nullable": True, "metadata": {}} for field in fields]
    return {"type": "struct", "fields": columns}


def _type(field: pa.Field) -> Any:
    from pyarrow import types

    kind = field.type
    if types.is_struct(kind):
        return _struct(kind)
    if types.is_map(kind):
        key, value = _type(kind.key_field), _type(kind.item_field)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if types.is_list(kind) or types.is_large_list(kind):
        return {"type": "array", "elementType": _type(kind.value_field), "containsNull": True}
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_dictionary(kind):
        kind = kind.value_type
    name = str(kind).removeprefix("large_")
    if name not in _ATOMIC:
        raise LandingError(f"column {field.name} is {kind}, a type that Spark does not have")
    return _ATOMIC[name]
