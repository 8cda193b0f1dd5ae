"""The columns that identify the record of a row: those of Spark's Kafka source. Pure."""

from __future__ import annotations

from collections.abc import Mapping

LINEAGE = ("topic", "partition", "offset")


def why_unknown(columns: Mapping[str, bool]) -> str:
    """Return why rows do not identify their records; empty if they do.

    Args:
        columns: The existing ones of LINEAGE, and whether each has the right type (a string, and two integers).
    """
    if missing := [name for name in LINEAGE if name not in columns]:
        return f"rows do not identify their records: there is no column {_listed(missing)}"
    if other := [name for name in LINEAGE if not columns[name]]:
        return f"rows do not identify their records: of another type than Kafka's is {_listed(other)}"
    return ""


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))
