"""Tables by the names that users write: `parquet:PATH`, `delta:PATH_OR_NAME`, `iceberg:CATALOG.DB.TABLE`.

A bare path is a Parquet directory. A format's module is imported on first use; none of them imports Spark.
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

_ALLOWED = "must be parquet:PATH, delta:PATH, delta:NAME or iceberg:CATALOG.DB.TABLE; a path alone means parquet"


def table_named(name: str, options: Mapping[str, Any] | None = None) -> Table:
    """Return the table of that name. It is not opened yet.

    Args:
        name: The table's kind and place.
        options: Options of the table's class, by name.

    Raises:
        ConfigError: The name or an option is invalid.
    """
    kind, place = parse_table(name)
    module, attribute = _KINDS[kind]
    adapter: Any = getattr(importlib.import_module(module), attribute)
    chosen = dict(options or {})
    check_known(chosen, list(inspect.signature(adapter).parameters)[1:])
    table: Table = adapter(place, **chosen)
    return table


def parse_table(name: str) -> tuple[str, str]:
    """Return a table's kind (`parquet`, `delta` or `iceberg`) and place. Raises ConfigError."""
    kind, colon, place = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not colon and kind:
        return "parquet", name
    if kind in _KINDS and place:
        return kind, place
    if "/" in kind or kind.startswith("."):
        return "parquet", name
    near = difflib.get_close_matches(kind, _KINDS, n=1)
    raise ConfigError("table", name, f"{_ALLOWED}{f'; did you mean {near[0]}:{place}?' if near and place else ''}")
