"""What a Delta commit says of a Parquet file that it adds."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = 1000
"""In microseconds: so exact are timestamps in statistics; a least one is rounded down, a greatest one up."""


def statistics(file: Path) -> str:
    """In JSON, as the Delta protocol has them (Per-file Statistics): rows, and of flat columns the least and greatest
    value and how many are null, as far as the file's footer says. Of binary columns Delta has no values."""
    import pyarrow.parquet as pq

    footer = pq.read_metadata(file)
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for number in range(footer.num_columns):
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
    return json.dumps(told, separators=(",", ":"))


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
    if logical in ("STRING", "INT") or (logical == "NONE" and isinstance(chunks[0].min, int)):
        return min(chunk.min for chunk in chunks), max(chunk.max for chunk in chunks)
    return None


def _timestamp(milliseconds: int) -> str:
    return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
