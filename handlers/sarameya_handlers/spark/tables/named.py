"""Tables by the names that users write: `parquet:PATH`, `delta:PATH_OR_NAME`, `iceberg:CATALOG.DB.TABLE`.

A bare path is a Parquet directory. An adapter is imported when it is asked for; none of them imports Spark by that.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from sarameya import ConfigError
from sarameya_handlers.options import check_known
from sarameya_handlers.spark.tables.table import Table

_KINDS = {
    "parquet": ("sarameya_handlers.spark.parquet.table", "ParquetTable"),
    "delta": ("sarameya_handlers.spark.delta.table", "DeltaTable"),
    "iceberg": ("sarameya_handlers.spark.iceberg.table", "IcebergTable"),
}

_ALLOWED = "must be parquet:PATH, delta:PATH, delta:NAME or iceberg:CATALOG.DB.TABLE; a bare path is parquet's"


def table_named(name: str, options: Mapping[str, Any] | None = None) -> Table:
    """The table that `name` says, not opened yet. `options` are its kind's own, by name.

    Raises ConfigError for a name or an option that cannot be.
    """
    kind, place = parse_table(name)
    module, attribute = _KINDS[kind]
    adapter: Any = getattr(importlib.import_module(module), attribute)
    chosen = dict(options or {})
    check_known(chosen, list(inspect.signature(adapter).parameters)[1:])
    table: Table = adapter(place, **chosen)
    return table


def parse_table(name: str) -> tuple[str, str]:
    """A table's kind, one of `parquet`, `delta` and `iceberg`, and where it is. Raises ConfigError."""
    kind, colon, place = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not colon and kind:
        return "parquet", name
    if kind in _KINDS and place:
        return kind, place
    if "/" in kind or kind.startswith("."):
        return "parquet", name
    near = difflib.get_close_matches(kind, _KINDS, n=1)
    raise ConfigError("table", name, f"{_ALLOWED}{f'; did you mean {near[0]}:{place}?' if near and place else ''}")
