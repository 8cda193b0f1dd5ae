"""What a Delta table asks of who commits files of rows: no more than to say that they have come, or more. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Self

import attrs

from sarameya_handlers.spark.delta.checks import Detail
from sarameya_handlers.spark.tables.columns import Columns, holds, nullable

_FEATURES = frozenset({"appendOnly", "invariants", "checkConstraints"})
"""Invariants are in columns' metadata, constraints among the properties."""
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
"""Of Delta's, those that ask nothing of a commit, or what we give."""
_FEWEST = 5
"""With fewer commits from one checkpoint to the next, too much is written by Spark after all."""
_METADATA = frozenset({"comment"})
"""Of columns', what asks nothing of their values."""


@attrs.frozen(slots=True, kw_only=True)
class Terms:
    """Of a table to which a commit need say no more than which files have come."""

    columns: Columns
    checkpoint_interval: int = 100
    """Each so many commits Spark is to make one, for its checkpoint, where the table does not say. (Spark, which has 10
    then, writes one there, too.)"""
    indexed: int = 32
    """Of how many columns a commit tells the least and greatest value; -1 for all."""

    @classmethod
    def of(cls, detail: Detail, columns: Columns) -> Self | None:
        """None where each commit is Spark's to make."""
        properties = detail.properties
        if detail.partition_columns or not _FEATURES.issuperset(detail.features):
            return None
        if any(name.startswith("delta.") and name not in _PROPERTIES for name in properties):
            return None
        # Spark leaves out columns of nulls alone, and Parquet has no such type.
        if nullable(columns) != columns or '"void"' in json.dumps(dict(columns)):
            return None
        if not _METADATA.issuperset(_metadata(columns)):
            return None
        told = {"checkpoint_interval": properties.get(_CHECKPOINTS), "indexed": properties.get(_INDEXED)}
        made = cls(columns=columns, **{name: int(text) for name, text in told.items() if text is not None})
        return made if made.checkpoint_interval >= _FEWEST else None

    def take(self, rows: Columns) -> bool:
        """Whether a file with columns of `rows` is one of the table's as it is: those that it lacks are null."""
        return holds(self.columns, nullable(rows))


def _metadata(kind: Any) -> Iterator[str]:
    """The names of what is said of columns, at any depth."""
    if isinstance(kind, Mapping):
        for key, value in kind.items():
            if key == "metadata":
                yield from value
            else:
                yield from _metadata(value)
    elif isinstance(kind, list):
        for one in kind:
            yield from _metadata(one)
