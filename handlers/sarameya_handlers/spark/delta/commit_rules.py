"""Rules for direct commits to a Delta table, made without Spark (direct_commits.py). Pure.

A direct commit only adds new files. For a table that requires more of a commit there are no rules: Spark makes each of
its commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Self

import attrs

from sarameya_handlers.spark.delta.checks import TableDetail
from sarameya_handlers.spark.tables.columns import Columns, holds, nullable

_FEATURES = frozenset({"appendOnly", "invariants", "checkConstraints"})
"""Table features that a direct commit may ignore. `CommitRules.of` finds an invariant in use in the columns' metadata,
a constraint among the properties, and leaves such a table to Spark."""
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
"""Delta properties that require nothing of a commit that a direct commit does not do."""
_MIN_CHECKPOINT_INTERVAL = 5
"""Spark makes every commit that needs a checkpoint. With a smaller interval direct commits would save little."""
_HARMLESS_METADATA = frozenset({"comment"})
"""Column metadata that do not restrict values."""


@attrs.frozen(slots=True, kw_only=True)
class CommitRules:
    """Rules for direct commits to a table whose commits need only add new files."""

    columns: Columns
    checkpoint_interval: int = 100
    """Spark makes each commit whose version is a multiple of this, and writes a checkpoint with it.

    100 unless the table sets `delta.checkpointInterval`. Spark's own default, 10, divides 100: so Spark writes a
    checkpoint at these versions in either case.
    """
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
        # Parquet has no type for a void column (all null). Spark omits it from the files that it writes, we would not.
        if nullable(columns) != columns or '"void"' in json.dumps(dict(columns)):
            return None
        if not _HARMLESS_METADATA.issuperset(_metadata_names(columns)):
            return None
        chosen = {"checkpoint_interval": properties.get(_CHECKPOINTS), "indexed": properties.get(_INDEXED)}
        rules = cls(columns=columns, **{name: int(text) for name, text in chosen.items() if text is not None})
        return rules if rules.checkpoint_interval >= _MIN_CHECKPOINT_INTERVAL else None

    def accepts(self, rows: Columns) -> bool:
        """Return whether a file with these columns fits the table unchanged. Columns that it lacks are null."""
        return holds(self.columns, nullable(rows))


def _metadata_names(kind: Any) -> Iterator[str]:
    """Yield the keys of the metadata of all columns, at any depth."""
    if isinstance(kind, Mapping):
        for key, value in kind.items():
            if key == "metadata":
                yield from value
            else:
                yield from _metadata_names(value)
    elif isinstance(kind, list):
        for item in kind:
            yield from _metadata_names(item)
