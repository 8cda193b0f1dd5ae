"""How numbers and names are put into a sentence. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_NAMED = 5
"""So many are named in one line."""


def counted(number: int, noun: str) -> str:
    """`1 member`, `3 members`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
