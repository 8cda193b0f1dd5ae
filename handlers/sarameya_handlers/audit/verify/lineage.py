"""The columns that identify the record of a row: those of Spark's Kafka source. Pure."""

from __future__ import annotations

from collections.abc import Mapping

LINEAGE = ("topic", "partition", "offset")


def why_unknown(columns: Mapping[str, bool]) -> str:
    """Return why rows do not identify their records; empty if they do.

    Args:
        columns: For each column of LINEAGE that the table has: whether its type is right. `topic` must be a string, the
            other two integers.
    """
    if missing := [name for name in LINEAGE if name not in columns]:
        return f"rows do not identify their records: there is no column {_listed(missing)}"
    if other := [name for name in LINEAGE if not columns[name]]:
        return f"rows do not identify their records: wrong type of column {_listed(other)}"
    return ""


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))
