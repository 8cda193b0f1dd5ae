"""Conditions on each row of a Delta table, from its schema and its properties. Pure: no Spark session.

Not covered: lengths of char and varchar, and the values of generated columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sarameya_handlers.spark.tables.evaluation import Requirement, fields, not_null

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_CHECK = "delta.constraints."
_INVARIANTS = "delta.invariants"


def requirements(schema: StructType, properties: Mapping[str, str]) -> Iterator[Requirement]:
    """Yield the requirements on a row as Delta's own writer applies them: a field of a null struct counts as null."""
    yield from not_null(schema, spares_null_structs=False)
    for name, condition in properties.items():
        if name.startswith(_CHECK):
            yield Requirement(f"CHECK constraint {name.removeprefix(_CHECK)} ({condition})", condition)
    for path, field in fields(schema):
        if _INVARIANTS in (field.metadata or {}):
            condition = json.loads(field.metadata[_INVARIANTS])["expression"]["expression"]
            yield Requirement(f"invariant of {'.'.join(path)} ({condition})", condition)
