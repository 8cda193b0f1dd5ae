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
    """Versions that are a multiple of this have a checkpoint. Elsewhere than on S3 Spark makes these commits.

    100 unless the table sets `delta.checkpointInterval`. Spark's own default, 10, divides 100: so Spark writes a
    checkpoint at these versions in either case.
    """
    indexed: int = 32
    """Number of columns with minimum and maximum in a commit's statistics; -1 for all."""

    @classmethod
    def of(cls, detail: TableDetail, columns: Columns, *, has_checkpoints_by_spark: bool = True) -> Self | None:
        """Return the rules of a table; None if Spark must make each commit.

        Args:
            detail: The table.
            columns: Its columns.
            has_checkpoints_by_spark: Whether Spark makes each commit that has a checkpoint.
        """
        if further_requirements(detail, columns):
            return None
        properties = detail.properties
        chosen = {"checkpoint_interval": properties.get(_CHECKPOINTS), "indexed": properties.get(_INDEXED)}
        numbers = {name: int(text) for name, text in chosen.items() if text is not None}
        rules = cls(columns=columns, **numbers)
        is_worthwhile = not has_checkpoints_by_spark or rules.checkpoint_interval >= _MIN_CHECKPOINT_INTERVAL
        return rules if is_worthwhile else None

    def accepts(self, rows: Columns) -> bool:
        """Return whether a file with these columns fits the table unchanged. Columns that it lacks are null."""
        return holds(self.columns, nullable(rows))


def further_requirements(detail: TableDetail, columns: Columns) -> list[str]:
    """Return what the table requires of a commit beside new files, in words for its owner."""
    found = [f"the partition column {name}" for name in detail.partition_columns]
    found += [f"the feature {name}" for name in detail.features if name not in _FEATURES]
    found += [
        f"the property {name}" for name in detail.properties if name.startswith("delta.") and name not in _PROPERTIES
    ]
    # Parquet has no type for a void column (all null). Spark omits it from the files that it writes, we would not.
    if nullable(columns) != columns or '"void"' in json.dumps(dict(columns)):
        found.append("a column that is NOT NULL, or of type void")
    found += [f"the column property {name}" for name in _metadata_names(columns) if name not in _HARMLESS_METADATA]
    return found


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
