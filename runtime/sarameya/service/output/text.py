"""Wording and tables in the output of commands for people. Pure.

Ids and hosts come from clients and may contain any characters: `printable` escapes those that control a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_NAMED = 5
"""Maximum number of names that `listed` returns."""

NOTHING = "-"
"""An empty cell, as in Kafka's own tools."""

Cell = str | int | None


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 member`, `3 members`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def table(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return a table of aligned columns: numbers to the right, a dash for None and for an empty text."""
    columns = list(zip(*rows, strict=True)) or [()] * len(header)
    return "\n".join(
        "  ".join(cells).rstrip()
        for cells in zip(*(_column(name, cells) for name, cells in zip(header, columns, strict=True)), strict=True)
    )


def _column(name: str, cells: Sequence[Cell]) -> list[str]:
    shown = [name, *(printable(str(cell)) if cell not in (None, "") else NOTHING for cell in cells)]
    width = max(map(len, shown))
    is_number = any(isinstance(cell, int) for cell in cells)
    return [text.rjust(width) if is_number else text.ljust(width) for text in shown]


def printable(text: str) -> str:
    """Return the text with all unprintable characters escaped, since they may control a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
