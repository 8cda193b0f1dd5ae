"""Tables to which a commit may be made without Spark: it only has to name the new files. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Self

import attrs

from sarameya_handlers.spark.delta.checks import TableDetail
from sarameya_handlers.spark.tables.columns import Columns, holds, nullable

_FEATURES = frozenset({"appendOnly", "invariants", "checkConstraints"})
"""Invariants are in the columns' metadata, constraints among the properties."""
_CHECKPOINTS = "delta.checkpointInterval"
_INDEXED = "delta.dataSkippingNumIndexedCols"
_PROPERTIES = frozenset(
    {
        _CHECKPOINTS,
        _INDEXED,
        "delta.appendOnly",
        "delta.deletedFileRetentionDuration",
        "delta.enableExpiredLogCleanup",
        "delta.logRetentionDuration",
        "delta.minReaderVersion",
        "delta.minWriterVersion",
        *(f"delta.feature.{feature}" for feature in _FEATURES),
    }
)
"""Delta properties that require nothing of a commit, or only what a direct commit provides."""
_FEWEST = 5
"""With fewer commits between checkpoints, Spark would write too many of them anyway."""
_METADATA = frozenset({"comment"})
"""Column metadata that do not restrict values."""


@attrs.frozen(slots=True, kw_only=True)
class CommitRules:
    """Rules for direct commits to a table that needs nothing more than the names of new files."""

    columns: Columns
    checkpoint_interval: int = 100
    """Spark makes each commit whose version is a multiple of this, for its checkpoint. This is the default if the table
    does not set it; Spark's own default is 10, and it then writes a checkpoint at these versions as well."""
    indexed: int = 32
    """Number of columns with minimum and maximum in a commit's statistics; -1 for all."""

    @classmethod
    def of(cls, detail: TableDetail, columns: Columns) -> Self | None:
        """Return the rules of a table; None if Spark must make each commit."""
        properties = detail.properties
        if detail.partition_columns or not _FEATURES.issuperset(detail.features):
            return None
        if any(name.startswith("delta.") and name not in _PROPERTIES for name in properties):
            return None
        # Spark omits columns of nulls by itself, and Parquet has no such type.
        if nullable(columns) != columns or '"void"' in json.dumps(dict(columns)):
            return None
        if not _METADATA.issuperset(_metadata(columns)):
            return None
        chosen = {"checkpoint_interval": properties.get(_CHECKPOINTS), "indexed": properties.get(_INDEXED)}
        made = cls(columns=columns, **{name: int(text) for name, text in chosen.items() if text is not None})
        return made if made.checkpoint_interval >= _FEWEST else None

    def accepts(self, rows: Columns) -> bool:
        """Return whether a file with these columns fits the table unchanged. Columns that it lacks are null."""
        return holds(self.columns, nullable(rows))


def _metadata(kind: Any) -> Iterator[str]:
    """Yield the names of column metadata, at any depth."""
    if isinstance(kind, Mapping):
        for key, value in kind.items():
            if key == "metadata":
                yield from value
            else:
                yield from _metadata(value)
    elif isinstance(kind, list):
        for one in kind:
            yield from _metadata(one)
