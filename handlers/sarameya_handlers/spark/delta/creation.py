"""The first commit of a Delta table in an object store, where Spark's own may replace another one's. Pure."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

from sarameya import HandlerError, __version__
from sarameya_handlers.spark.delta.checks import TableDetail
from sarameya_handlers.spark.delta.commit_rules import further_requirements
from sarameya_handlers.spark.delta.history.commits import commit_content
from sarameya_handlers.spark.tables.columns import Columns, nullable

_TYPES = re.compile(r"binary|boolean|byte|date|decimal\(\d+,\d+\)|double|float|integer|long|short|string|timestamp")
"""Types of the Delta protocol that need no table feature."""
_FORBIDDEN = re.compile(r"[ ,;{}()\n\t=]")
"""Characters that a column's name has only in a table with column mapping."""


def creation(name: str, columns: Columns) -> bytes:
    """Return the content of the commit that creates a table with these columns, all of them nullable.

    Args:
        name: The table's name, for errors.
        columns: The columns.

    Raises:
        HandlerError: The columns need a feature of the table.
    """
    columns = nullable(columns)
    if special := [*_special(columns), *further_requirements(TableDetail(location=""), columns)]:
        raise HandlerError(
            f"{name}: a table with {', '.join(special)} needs commits of Spark, and on S3 these are safe only if one "
            "driver makes all of them. Cast or rename the column in the transform; or set single_driver = true"
        )
    now = time.time_ns() // 1_000_000
    actions: list[dict[str, Any]] = [
        {
            "commitInfo": {
                "timestamp": now,
                "operation": "CREATE TABLE",
                "operationParameters": {"partitionBy": "[]", "properties": "{}"},
                "isolationLevel": "Serializable",
                "isBlindAppend": True,
                "operationMetrics": {},
                "engineInfo": f"Sarameya/{__version__}",
            }
        },
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": str(uuid4()),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(columns),
                "partitionColumns": [],
                "configuration": {},
                "createdTime": now,
            }
        },
    ]
    return commit_content(actions)


def _special(kind: Any, name: str = "") -> Iterator[str]:
    """Yield the columns that need a table feature."""
    if not isinstance(kind, Mapping):
        if not _TYPES.fullmatch(kind):
            yield f"{name} {kind}"
        return
    for field in kind.get("fields", ()):
        inner = f"{name}.{field['name']}" if name else field["name"]
        if _FORBIDDEN.search(field["name"]):
            yield f"the name {inner!r}"
        yield from _special(field["type"], inner)
    for part in ("elementType", "keyType", "valueType"):
        if part in kind:
            yield from _special(kind[part], name)
