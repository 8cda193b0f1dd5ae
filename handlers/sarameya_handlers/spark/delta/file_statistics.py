"""Size and statistics of a Parquet file, for the Delta commit that adds it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import attrs

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT_LENGTH = 32
"""Maximum number of characters of a text in statistics, as in Delta's own."""
_GREATEST = "\U0010ffff"
"""The greatest character."""
_MILLISECOND = 1000
"""Precision of timestamps in statistics, in microseconds. Minimums are rounded down, maximums up."""


@attrs.frozen(slots=True)
class FileStatistics:
    """Statistics of one file.

    Attributes:
        rows: Number of rows.
        size: Size in bytes.
        statistics: JSON, as the Delta protocol defines it (Per-file Statistics).
    """

    rows: int
    size: int
    statistics: str

    @classmethod
    def of(cls, footer: pq.FileMetaData, size: int, indexed: int) -> Self:
        """Return the statistics of a file from its footer.

        Args:
            footer: The footer of a Parquet file.
            size: Its size in bytes.
            indexed: Number of columns that get minimum, maximum and null count; -1 for all. Nested columns get none.
                Delta has no minimum and maximum for binary columns.
        """
        least: dict[str, Any] = {}
        greatest: dict[str, Any] = {}
        nulls: dict[str, int] = {}
        for number in range(footer.num_columns if indexed < 0 else min(indexed, footer.num_columns)):
            schema = footer.schema.column(number)
            if schema.path != schema.name:
                continue  # within a list, or a struct
            chunks = [footer.row_group(group).column(number).statistics for group in range(footer.num_row_groups)]
            if any(chunk is None or not chunk.has_null_count for chunk in chunks):
                continue
            nulls[schema.name] = sum(chunk.null_count for chunk in chunks)
            bounds = _bounds([chunk for chunk in chunks if chunk.num_values], schema.logical_type.type)
            if bounds is not None:
                least[schema.name], greatest[schema.name] = bounds
        statistics = {"numRecords": footer.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
        return cls(footer.num_rows, size, json.dumps(statistics, separators=(",", ":")))


NO_FILE = FileStatistics(0, 0, "")
"""Statistics of a commit that adds no file."""


def _bounds(chunks: list[Any], logical: str) -> tuple[Any, Any] | None:
    """Return minimum and maximum over the chunks; None if the footer lacks them, or Delta does not order the type."""
    if not chunks or not all(chunk.has_min_max for chunk in chunks):
        return None
    if logical == "TIMESTAMP":
        try:
            low, high = min(chunk.min_raw for chunk in chunks), max(chunk.max_raw for chunk in chunks)
            return _timestamp(low // _MILLISECOND), _timestamp(-(-high // _MILLISECOND))
        except OverflowError:  # a record's timestamp may be in a year that Python does not have
            return None
    if logical == "STRING":
        return _text_bounds(chunks)
    if logical == "DATE":
        return _date_bounds(chunks)
    # In Python a boolean is an int, too; Delta keeps no minimum and maximum for it.
    if logical == "INT" or (logical == "NONE" and type(chunks[0].min) is int):
        return min(chunk.min for chunk in chunks), max(chunk.max for chunk in chunks)
    return None


def _text_bounds(chunks: list[Any]) -> tuple[str, str] | None:
    """Return the shortened minimum and maximum. A shortened maximum ends with the greatest character."""
    try:
        low, high = min(chunk.min for chunk in chunks), max(chunk.max for chunk in chunks)
    except UnicodeDecodeError:  # Spark's strings may be any bytes
        return None
    if len(high) <= _TEXT_LENGTH:
        return low[:_TEXT_LENGTH], high
    return (low[:_TEXT_LENGTH], high[:_TEXT_LENGTH] + _GREATEST) if high[_TEXT_LENGTH] != _GREATEST else None


def _date_bounds(chunks: list[Any]) -> tuple[str, str] | None:
    try:
        return min(chunk.min for chunk in chunks).isoformat(), max(chunk.max for chunk in chunks).isoformat()
    except (OverflowError, ValueError):  # Spark has more years than Python
        return None


def _timestamp(milliseconds: int) -> str:
    return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
