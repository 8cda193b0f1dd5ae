"""The columns by which a row tells of which record it is: those of Spark's Kafka source. Pure."""

from __future__ import annotations

from collections.abc import Mapping

LINEAGE = ("topic", "partition", "offset")


def why_unknown(columns: Mapping[str, bool]) -> str:
    """Why rows do not tell of which record they are; empty if they do. `columns`: of each of LINEAGE that is there,
    whether it is of the type that it should be (a string, and two integers)."""
    if missing := [name for name in LINEAGE if name not in columns]:
        return f"rows do not tell of which record they are: there is no column {_listed(missing)}"
    if other := [name for name in LINEAGE if not columns[name]]:
        return f"rows do not tell of which record they are: of another type than Kafka's is {_listed(other)}"
    return ""


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))
