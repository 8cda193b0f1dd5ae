"""Lines of a table for a terminal: a name, and cells to its right."""

from __future__ import annotations

from collections.abc import Iterable


def row(name: str, cells: Iterable[str], *, name_width: int, cell_width: int) -> str:
    return f"{name:{name_width}}" + "".join(f"{cell:>{cell_width}}" for cell in cells).rstrip()
