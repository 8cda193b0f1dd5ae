"""What a Delta commit says of a Parquet file that it adds."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import attrs

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT = 32
"""Characters of a text that statistics have, as Delta's own have."""
_LAST = "\U0010ffff"
"""No character is greater."""
_MILLISECOND = 1000
"""In microseconds: so exact are timestamps in statistics; a least one is rounded down, a greatest one up."""


@attrs.frozen(slots=True)
class Facts:
    """`size` in bytes; `statistics` in JSON, as the Delta protocol has them (Per-file Statistics)."""

    rows: int
    size: int
    statistics: str

    @classmethod
    def of(cls, file: Path, indexed: int) -> Self:
        """Of flat columns among the first `indexed` (all of them, if -1): the least and greatest value and how many are
        null, as far as the file's footer says. Of binary columns Delta has no values."""
        import pyarrow.parquet as pq

        footer = pq.read_metadata(file)
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
            span = _span([chunk for chunk in chunks if chunk.num_values], schema.logical_type.type)
            if span is not None:
                least[schema.name], greatest[schema.name] = span
        told = {"numRecords": footer.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
        return cls(footer.num_rows, file.stat().st_size, json.dumps(told, separators=(",", ":")))


NONE = Facts(0, 0, "")
"""Of no file."""


def _span(chunks: list[Any], logical: str) -> tuple[Any, Any] | None:
    """Of chunks that have values; None for none, for what has no order in Delta, and what the footer leaves out."""
    if not chunks or not all(chunk.has_min_max for chunk in chunks):
        return None
    if logical == "TIMESTAMP":
        try:
            low, high = min(chunk.min_raw for chunk in chunks), max(chunk.max_raw for chunk in chunks)
            return _timestamp(low // _MILLISECOND), _timestamp(-(-high // _MILLISECOND))
        except OverflowError:  # Kafka's clocks may say any year
            return None
    if logical == "STRING":
        return _text(chunks)
    if logical == "DATE":
        return _dates(chunks)
    # A boolean is an int, too, to Python; it has no span in Delta.
    if logical == "INT" or (logical == "NONE" and type(chunks[0].min) is int):
        return min(chunk.min for chunk in chunks), max(chunk.max for chunk in chunks)
    return None


def _text(chunks: list[Any]) -> tuple[str, str] | None:
    """A long text's beginning, which is no greater; of a greatest one with what is greater than all that may follow."""
    try:
        low, high = min(chunk.min for chunk in chunks), max(chunk.max for chunk in chunks)
    except UnicodeDecodeError:  # Spark's strings may be any bytes
        return None
    if len(high) <= _TEXT:
        return low[:_TEXT], high
    return (low[:_TEXT], high[:_TEXT] + _LAST) if high[_TEXT] != _LAST else None


def _dates(chunks: list[Any]) -> tuple[str, str] | None:
    try:
        return min(chunk.min for chunk in chunks).isoformat(), max(chunk.max for chunk in chunks).isoformat()
    except (OverflowError, ValueError):  # Spark's years are more than Python's
        return None


def _timestamp(milliseconds: int) -> str:
    return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
