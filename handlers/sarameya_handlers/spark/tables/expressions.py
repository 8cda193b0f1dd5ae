"""SQL text for `selectExpr` and `filter`.

SQL is the same for classic Spark and Spark Connect, which have different function modules in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def quoted(name: str) -> str:
    """Return a column's name in SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Return a string literal in SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


def type_name(kind: DataType) -> str:
    """Return a type in SQL. Unlike its `simpleString`, this quotes field names."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{quoted(field.name)}: {type_name(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{type_name(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{type_name(kind.keyType)}, {type_name(kind.valueType)}>"
    return kind.simpleString()
