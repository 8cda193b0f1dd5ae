"""What a Delta commit says of a Parquet file that it adds: whether its columns are the table's, and statistics."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltalake import Schema

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NULLABLE = ("nullable", "containsNull", "valueContainsNull")
_MILLISECOND = 1000
"""In microseconds: so exact are timestamps in statistics; a least one is rounded down, a greatest one up."""


def columns_of(file: Path) -> Schema:
    """The columns of a Parquet file, in Delta's words."""
    import pyarrow.parquet as pq
    from deltalake import Schema

    return Schema.from_arrow(pq.read_schema(file))


def holds(table: Schema, file: Schema) -> bool:
    """Whether a file with these columns is one of the table's as it is: by name they have the same types, and nothing
    is asked of them, neither that they are there nor what only a column's metadata say."""
    return _fields(table) == {name: _open(field) for name, field in _fields(file).items()}


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
        span = _span([chunk for chunk in chunks if chunk.has_min_max], schema.logical_type.type)
        if span is not None:
            least[schema.name], greatest[schema.name] = span
    told = {"numRecords": footer.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
    return json.dumps(told, separators=(",", ":"))


def _span(chunks: list[Any], logical: str) -> tuple[Any, Any] | None:
    """None for what has no order in Delta, no values, or none that can be told."""
    if not chunks:
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


def _fields(schema: Schema) -> dict[str, Any]:
    return {field["name"]: field for field in json.loads(schema.to_json())["fields"]}


def _open(told: Any) -> Any:
    """A type, or a field, that allows nulls wherever one can."""
    if isinstance(told, dict):
        return {name: True if name in _NULLABLE else _open(part) for name, part in told.items()}
    return [_open(part) for part in told] if isinstance(told, list) else told
