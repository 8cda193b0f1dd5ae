"""Evaluation of rows without writing them, and a table's requirements as Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

import attrs

from sarameya_handlers.spark.tables.expressions import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType

Evaluate = Callable[["DataFrame"], None]
"""A function that computes every row and discards it. It raises the errors of the computation."""

_CHECK = "_sarameya_check"


@attrs.frozen(slots=True)
class Requirement:
    """A condition that each row of a table must satisfy."""

    name: str
    """The text for errors, such as `CHECK constraint positive (amount > 0)`."""
    condition: str
    """SQL expression over the table's columns. A row for which it is false or null is refused."""


def compute_all(frame: DataFrame) -> None:
    """Compute all rows and discard them, by Spark's noop format."""
    frame.write.format("noop").mode("overwrite").save()


def with_checks(frame: DataFrame, requirements: Collection[Requirement]) -> DataFrame:
    """Return the frame with a column that raises an error for a row that violates a requirement.

    A column, not a filter: Spark may move a filter before a join, to rows that the join would drop.
    """
    if not requirements:
        return frame
    checks = " ".join(
        f"when not coalesce(({each.condition}), false) then raise_error({literal(f'{each.name} is violated')})"
        for each in requirements
    )
    return frame.selectExpr("*", f"case {checks} else true end as {_CHECK}")


def fields(struct: StructType, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], StructField]]:
    """Yield each column and each field of a struct, after its parent, with its path. Skips arrays and maps."""
    from pyspark.sql.types import StructType

    for field in struct.fields:
        yield (*path, field.name), field
        if isinstance(field.dataType, StructType):
            yield from fields(field.dataType, (*path, field.name))


def not_null(struct: StructType, *, spares_null_structs: bool) -> Iterator[Requirement]:
    """Yield a requirement for each non-nullable field of a schema.

    Args:
        struct: The table's schema.
        spares_null_structs: True if a field may be null when its struct is.
    """
    for path, field in fields(struct):
        if field.nullable:
            continue
        names = [quoted(name) for name in path]
        condition = f"{'.'.join(names)} is not null"
        if spares_null_structs and len(names) > 1:
            condition = f"{'.'.join(names[:-1])} is null or {condition}"
        yield Requirement(f"NOT NULL constraint of {'.'.join(path)}", condition)
