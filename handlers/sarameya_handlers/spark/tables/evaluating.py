"""Whether a table would take rows, found out without writing any: what it requires of them, as Spark's SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

import attrs

from sarameya_handlers.spark.shaping.expressions import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType

Evaluate = Callable[["DataFrame"], None]
"""Has every row computed, and keeps none. Raises what that raises."""

_CHECK = "_sarameya_check"


@attrs.frozen(slots=True)
class Requirement:
    """What each row of a table fulfils."""

    name: str
    """As whoever made the table knows it: `CHECK constraint positive (amount > 0)`."""
    condition: str
    """An expression over the table's columns: a row for which it is false, or null, is refused."""


def to_nowhere(frame: DataFrame) -> None:
    """Spark's own way to have everything computed, and keep nothing."""
    frame.write.format("noop").mode("overwrite").save()


def checked(frame: DataFrame, requirements: Collection[Requirement]) -> DataFrame:
    """The frame with a column that raises for a row that one of these refuses.

    A column, not a filter: those Spark may move to where there are rows that a join drops.
    """
    if not requirements:
        return frame
    refusals = " ".join(
        f"when not coalesce(({one.condition}), false) then raise_error({literal(f'{one.name} is violated')})"
        for one in requirements
    )
    return frame.selectExpr("*", f"case {refusals} else true end as {_CHECK}")


def fields(struct: StructType, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], StructField]]:
    """Each column, and each field of a struct, behind the one that it is in. Not what arrays and maps have."""
    from pyspark.sql.types import StructType

    for field in struct.fields:
        yield (*path, field.name), field
        if isinstance(field.dataType, StructType):
            yield from fields(field.dataType, (*path, field.name))


def not_null(struct: StructType, *, spares_null_structs: bool) -> Iterator[Requirement]:
    """That what must not be null is not; where its struct is null, `spares_null_structs` says that it is no matter."""
    for path, field in fields(struct):
        if field.nullable:
            continue
        names = [quoted(name) for name in path]
        condition = f"{'.'.join(names)} is not null"
        if spares_null_structs and len(names) > 1:
            condition = f"{'.'.join(names[:-1])} is null or {condition}"
        yield Requirement(f"NOT NULL constraint of {'.'.join(path)}", condition)
