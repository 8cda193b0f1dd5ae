"""Partitions of a table that a batch has rows of: the columns must exist, and the partitions must be few.

A batch writes one file for each of its partitions. Records with garbage timestamps (before 1970, in 2099, all over a
century) would produce a file for every record. Such a batch is refused before it is written; `with_event_date` prevents
it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from sarameya_handlers.spark.error_sources import NAME_BYTES
from sarameya_handlers.spark.shaping.errors import SchemaMismatchError, ShapeError, TooManyPartitionsError
from sarameya_handlers.spark.shaping.schemas import by_name
from sarameya_handlers.spark.tables.evaluation import Requirement, with_checks
from sarameya_handlers.spark.tables.expressions import literal, quoted

if TYPE_CHECKING:
    import datetime

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_SHOWN = 5
_UTC = ("UTC", "ETC/UTC", "GMT", "Z", "+00:00")
_NULL = "__HIVE_DEFAULT_PARTITION__"
"""Directory name for null."""
_ESCAPED = r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]"""
"""Characters that Spark escapes with three in directory names, such as `%2F`."""


def with_event_date(
    frame: DataFrame,
    earliest: datetime.date | str,
    latest: datetime.date | str,
    *,
    column: str = "timestamp",
    name: str = "event_date",
) -> DataFrame:
    """Add the day of a timestamp, in the session's time zone, as a partition column. For use in a transform.

        def shaped(batch):
            return with_event_date(batch, "2020-01-01", "2039-12-31")

    A day before `earliest` or after `latest` is null, so records with garbage timestamps share one partition. In SQL:
    `case when date(timestamp) between '2020-01-01' and '2039-12-31' then date(timestamp) end as event_date`.

    Args:
        frame: The rows.
        earliest: First valid day.
        latest: Last valid day.
        column: Name of the timestamp column.
        name: Name of the new column.
    """
    day = f"to_date({quoted(column)})"
    within = f"{day} between to_date('{_day(earliest)}') and to_date('{_day(latest)}')"
    return frame.selectExpr("*", f"case when {within} then {day} end as {quoted(name)}")


def _day(day: datetime.date | str) -> str:
    import datetime

    return str(datetime.date.fromisoformat(str(day)))


def require_partition_columns(frame: DataFrame, columns: Sequence[str]) -> None:
    """Raise SchemaMismatchError unless the rows have these columns, with types usable for partitions."""
    fields = by_name(frame.schema)
    missing = [column for column in columns if column.lower() not in fields]
    if missing:
        raise SchemaMismatchError(
            f"the rows have no {', '.join(missing)} to partition the table by, only {', '.join(frame.columns)}: "
            "add it in the transform"
        )
    for column in columns:
        kind = fields[column.lower()].dataType.simpleString()
        if kind.startswith(("struct", "array", "map", "variant", "binary")):
            raise SchemaMismatchError(f"no table can be partitioned by {column}, whose type is {kind}")


def directory_rules(schema: StructType, columns: Sequence[str]) -> Iterator[Requirement]:
    """Yield the requirements on text that becomes a directory's name (`city=Ulm`), one for each of these text columns.

    If text violates them, Spark fails with an error that looks temporary, or reads back another value.
    """
    from pyspark.sql.types import StringType

    fields = by_name(schema)
    for column in columns:
        field = fields[column.lower()]
        if not isinstance(field.dataType, StringType):
            continue
        value, limit = quoted(field.name), NAME_BYTES - len(f"{field.name}=".encode())
        size = f"octet_length(regexp_replace({value}, {literal(_ESCAPED)}, '%00'))"
        is_text = f"is_valid_utf8({value}) and not contains({value}, chr(0)) and {value} <> {literal(_NULL)}"
        yield Requirement(
            f"rule of partition column {field.name} (UTF-8 without NUL, not {_NULL}, in a directory's name at most "
            f"{limit} bytes: change the value in the transform)",
            f"{value} is null or ({is_text} and {size} <= {limit})",
        )


def require_utc(spark: SparkSession, frame: DataFrame, columns: Sequence[str]) -> None:
    """Raise ShapeError for a timestamp among these columns, unless the session's time zone is UTC.

    Delta writes partition timestamps as local time, in which one hour of each year occurs twice. It reads back the
    wrong hour of the two.
    """
    from pyspark.sql.types import TimestampType

    fields = by_name(frame.schema)
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    for column in columns:
        if isinstance(fields[column.lower()].dataType, TimestampType) and zone.upper() not in _UTC:
            raise ShapeError(
                f"the table is partitioned by {column}, a timestamp, and the session's time zone is {zone}: set "
                "spark.sql.session.timeZone to UTC, or partition by the date"
            )


def require_few_partitions(
    frame: DataFrame, columns: Sequence[str], limit: int, rules: Collection[Requirement] = ()
) -> None:
    """Raise TooManyPartitionsError if these columns have more than `limit` combinations of values.

    Runs a Spark job that computes only these columns. Spark raises an error if a value violates one of the `rules`.
    """
    found = _partitions(frame, columns, limit, rules)
    if len(found) > limit:
        raise TooManyPartitionsError(
            f"a batch has rows of more than {limit} partitions by {', '.join(columns)} "
            f"({', '.join(found[:_SHOWN])}, ...): "
            "partition the table more coarsely, limit the values (with_event_date does), or allow more (max_partitions)"
        )


def _partitions(frame: DataFrame, columns: Sequence[str], limit: int, rules: Collection[Requirement] = ()) -> list[str]:
    """Return the partitions as text: Python's datetime cannot represent each of Spark's timestamps."""
    names = [quoted(name) for name in columns]
    if not names:
        return [""]
    few = with_checks(frame.select(*names), rules).distinct().limit(limit + 1)
    shown = ", ".join(f"coalesce(cast({name} as string), 'null')" for name in names)
    return [row[0] for row in few.selectExpr(f"concat_ws('/', {shown})").collect()]
