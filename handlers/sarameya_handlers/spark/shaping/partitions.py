"""The partitions of a table that a landing touches: their columns are there, and there are not too many of them.

A landing writes a file for each partition that it touches. Records whose times are garbage (before 1970, in 2099, all
over a century) would make it a file for each record: it is stopped before that, and `with_event_date` keeps it from
happening.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sarameya_handlers.spark.shaping.errors import SchemaMismatchError, TooManyPartitionsError
from sarameya_handlers.spark.shaping.expressions import quoted
from sarameya_handlers.spark.shaping.schemas import by_name

if TYPE_CHECKING:
    import datetime

    from pyspark.sql import DataFrame

_SHOWN = 5


def with_event_date(
    frame: DataFrame,
    earliest: datetime.date | str,
    latest: datetime.date | str,
    *,
    column: str = "timestamp",
    name: str = "event_date",
) -> DataFrame:
    """The frame with the day of a timestamp (in the session's time zone), to partition a table by; for a transform.

        def shaped(batch):
            return with_event_date(batch, "2020-01-01", "2039-12-31")

    The day is null where it is not between `earliest` and `latest`, both included: records with garbage for a time
    share one partition, whatever they say. In SQL: `case when date(timestamp) between '2020-01-01' and '2039-12-31'
    then date(timestamp) end as event_date`.
    """
    day = f"to_date({quoted(column)})"
    within = f"{day} between to_date('{_day(earliest)}') and to_date('{_day(latest)}')"
    return frame.selectExpr("*", f"case when {within} then {day} end as {quoted(name)}")


def _day(day: datetime.date | str) -> str:
    import datetime

    return str(datetime.date.fromisoformat(str(day)))


def require_partition_columns(frame: DataFrame, columns: Sequence[str]) -> None:
    """Raise SchemaMismatchError unless the rows have these columns, and a table can be partitioned by their types."""
    there = by_name(frame.schema)
    missing = [column for column in columns if column.lower() not in there]
    if missing:
        raise SchemaMismatchError(
            f"the rows have no {', '.join(missing)} to partition the table by, only {', '.join(frame.columns)}: "
            "make it in the transform"
        )
    for column in columns:
        kind = there[column.lower()].dataType.simpleString()
        if kind.startswith(("struct", "array", "map", "variant", "binary")):
            raise SchemaMismatchError(f"no table can be partitioned by {column}, whose type is {kind}")


def count_partitions(frame: DataFrame, columns: Sequence[str], limit: int) -> int:
    """How many different values these columns have together, up to one more than `limit`.

    A job of Spark's, which computes of the rows what these columns need, and nothing else.
    """
    return len(_partitions(frame, columns, limit))


def require_few_partitions(frame: DataFrame, columns: Sequence[str], limit: int) -> None:
    """Raise TooManyPartitionsError where there are more than `limit`; count as `count_partitions` does."""
    found = _partitions(frame, columns, limit)
    if len(found) > limit:
        raise TooManyPartitionsError(
            f"a landing has rows of more than {limit} partitions by {', '.join(columns)} "
            f"({', '.join(found[:_SHOWN])}, ...): "
            "partition the table more coarsely, bound the values (with_event_date does), or allow more (max_partitions)"
        )


def _partitions(frame: DataFrame, columns: Sequence[str], limit: int) -> list[str]:
    """As text: not every timestamp that Spark has is one of Python's."""
    names = [quoted(name) for name in columns]
    if not names:
        return [""]
    few = frame.select(*names).distinct().limit(limit + 1)
    shown = ", ".join(f"coalesce(cast({name} as string), 'null')" for name in names)
    return [row[0] for row in few.selectExpr(f"concat_ws('/', {shown})").collect()]
