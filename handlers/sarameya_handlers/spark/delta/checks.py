"""Requirements on a Delta table, its store and the Spark session, without which chains would not be exact.

Each failed check raises a HandlerError with the reason and the remedy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import attrs

from sarameya import HandlerError
from sarameya_handlers.spark.delta.errors import condition_of, is_missing
from sarameya_handlers.spark.tables.packages import DELTA
from sarameya_handlers.spark.tables.table import Layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT_BY_DEFAULT = 30 * 24 * 3600.0
"""Seconds for which Delta keeps its history by default (delta.logRetentionDuration)."""

_RETENTION = "delta.logRetentionDuration"
_TXN_RETENTION = "delta.setTransactionRetentionDuration"
_COMMIT_INFO = "spark.databricks.delta.commitInfo.enabled"

_S3 = ("s3", "s3a", "s3n")
_MULTI_DRIVER_STORE = "S3DynamoDBLogStore"
_PUT_IF_ABSENT = ("abfs", "abfss", "adl", "gs", "hdfs", "viewfs", "wasb", "wasbs")
"""Schemes whose default log store creates a commit's file only if it does not exist."""
_ONE_DRIVER_STORES = ("LocalLogStore", "S3SingleDriverLogStore")
_CATALOG_COMMIT_FEATURES = ("catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview")

_UNITS = {
    "microsecond": 1e-6,
    "millisecond": 1e-3,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
    "week": 7 * 86400.0,
}


@attrs.frozen(slots=True, kw_only=True)
class TableDetail:
    """A Delta table as `DESCRIBE DETAIL` reports it."""

    location: str
    partition_columns: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    properties: dict[str, str] = attrs.field(factory=dict)

    @classmethod
    def load(cls, spark: SparkSession, table: str) -> Self | None:
        """Load the detail of a table; None if there is no such table.

        Args:
            spark: The session.
            table: The table's name in SQL.

        Raises:
            HandlerError: The table is not a Delta table, or Spark has no Delta Lake.
        """
        try:
            row: Any = spark.sql(f"DESCRIBE DETAIL {table}").collect()[0]
        except Exception as error:
            if is_missing(error):
                return None
            if condition_of(error) in _NO_DELTA:
                raise DELTA.missing_error(spark) from error
            raise
        if row.format != "delta":
            raise HandlerError(f"{table} is a table of format {row.format}, not a Delta table")
        return cls(
            location=row.location,
            partition_columns=tuple(row.partitionColumns or ()),
            features=tuple(row.tableFeatures or ()),
            properties=dict(row.properties or {}),
        )

    @property
    def kept_for(self) -> float:
        """Seconds for which the table keeps its history."""
        return seconds_of(self.properties[_RETENTION]) if _RETENTION in self.properties else KEPT_BY_DEFAULT

    @property
    def is_cleaned_up(self) -> bool:
        """True if a checkpoint removes commits that are older than that."""
        return self.properties.get("delta.enableExpiredLogCleanup", "true").lower() == "true"

    @property
    def named_directories(self) -> tuple[str, ...]:
        """Partition columns whose values become names of directories; empty if other names are used."""
        properties = self.properties
        is_random = properties.get("delta.randomizeFilePrefixes", "false").lower() == "true"
        is_mapped = properties.get("delta.columnMapping.mode", "none").lower() != "none"
        is_object_store = scheme_of(self.location) not in ("file", "hdfs", "viewfs")
        return () if is_random or is_mapped or is_object_store else self.partition_columns


_NO_DELTA = (
    "DATA_SOURCE_NOT_FOUND",
    "PARSE_SYNTAX_ERROR",
    "INVALID_SQL_SYNTAX",
    "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY",
)


def seconds_of(interval: str) -> float:
    """Return the seconds of an interval in Delta's notation: "interval 30 days", "interval 1 week 2 days".

    Raises:
        HandlerError: The text is not an interval, or has an unknown unit.
    """
    parts = re.findall(r"(-?\d+)\s+([a-z]+?)s?\b", interval.lower())
    if not parts:
        raise HandlerError(f"{_RETENTION} = {interval!r} is not an interval such as 'interval 30 days'")
    try:
        return sum(int(count) * _UNITS[unit] for count, unit in parts)
    except KeyError as error:
        raise HandlerError(f"{_RETENTION} = {interval!r}: {error.args[0]} is not a known unit") from None


def check_session(spark: SparkSession) -> None:
    """Raise HandlerError unless Spark has Delta Lake and writes the commit metadata that records links."""
    DELTA.require(spark)
    if (spark.conf.get(_COMMIT_INFO, None) or "true").lower() == "false":
        raise HandlerError(
            f"{_COMMIT_INFO} is false, but links are recorded in the commit info: do not set it in the sink's Spark"
        )


def check_store(spark: SparkSession, location: str, *, single_driver: bool) -> None:
    """Raise HandlerError unless commits of several Spark drivers to this location are atomic.

    Args:
        spark: The session.
        location: The table's location.
        single_driver: True if only one driver commits. Then every store is allowed.
    """
    if single_driver:
        return
    scheme = scheme_of(location)
    store = _log_store(lambda name: spark.conf.get(name, None), scheme)
    remedy = (
        "let all sinks of the table share one Spark Connect server (spark.master = 'sc://...'), "
        "and set single_driver = true"
    )
    if scheme in _S3 and not store.endswith(_MULTI_DRIVER_STORE):
        raise HandlerError(
            f"{location}: on S3 two Spark drivers that commit at once lose a commit. Name the table by its URL "
            f"(delta:{location}), then the sink makes all commits; or give each Spark "
            f"spark.delta.logStore.{scheme}.impl = io.delta.storage.{_MULTI_DRIVER_STORE} (delta-storage-s3-dynamodb), "
            f"or {remedy}"
        )
    if store.endswith(_ONE_DRIVER_STORES):
        raise HandlerError(f"{location}: {store} is for one Spark driver. Leave it out, or {remedy}")
    if not store and scheme not in ("file", *_PUT_IF_ABSENT, *_S3):
        raise HandlerError(
            f"{location}: whether commits of several Spark drivers to {scheme}: are atomic is not known here: {remedy}"
        )


def is_s3(location: str) -> bool:
    """Return whether a location is on S3, where a commit of Spark may replace another one."""
    return scheme_of(location) in _S3


def has_shared_store(spark: SparkSession, location: str) -> bool:
    """Return whether Spark's commits to this location on S3 are coordinated among several drivers, by DynamoDB."""
    return _log_store(lambda name: spark.conf.get(name, None), scheme_of(location)).endswith(_MULTI_DRIVER_STORE)


def check_detail(name: str, detail: TableDetail, layout: Layout) -> None:
    """Raise HandlerError if the table cannot hold chains, or its partitioning differs from the layout's."""
    if _TXN_RETENTION in detail.properties:
        raise HandlerError(
            f"{name} has {_TXN_RETENTION} = {detail.properties[_TXN_RETENTION]!r}: the transactions that keep records "
            f"from landing twice would be forgotten. ALTER TABLE ... UNSET TBLPROPERTIES ('{_TXN_RETENTION}')"
        )
    if by_catalog := set(detail.features) & set(_CATALOG_COMMIT_FEATURES):
        raise HandlerError(
            f"{name}: its commits are kept by a catalog ({', '.join(sorted(by_catalog))}), and the sink has not been "
            "tested with such tables: use a table with its log in its own directory"
        )
    wanted, actual = layout.partition_by, detail.partition_columns
    if wanted and [column.lower() for column in wanted] != [column.lower() for column in actual]:
        raise HandlerError(
            f"{name} is partitioned by ({', '.join(actual)}), not by ({', '.join(wanted)}): "
            "leave partition_by out, or land in another table"
        )


def scheme_of(location: str) -> str:
    """Return the scheme of a location as Spark writes it; "file" for a path without one."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", location)
    return match[1].lower() if match else "file"


def _log_store(setting: Callable[[str], str | None], scheme: str) -> str:
    """Return the class configured to write this scheme's commits; empty if Delta chooses."""
    for name in (f"spark.delta.logStore.{scheme}.impl", "spark.delta.logStore.class"):
        if chosen := setting(name):
            return chosen
    return ""
