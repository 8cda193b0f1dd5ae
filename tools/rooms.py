"""Warns of folders with many modules: `python -m tools.rooms`, a part of `make check`.

A folder of about a dozen modules can be understood from its file names alone. A larger one is worth a second look, not
an error: one module for each Kafka API (`embedded/apis`) is easy to find one's way in.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHECKED = ("runtime", "handlers")
LIMIT = 15


def large_rooms(root: Path = ROOT, folders: Iterable[str] = CHECKED, limit: int = LIMIT) -> dict[str, int]:
    """Return the folders with more than `limit` modules beside `__init__.py`, and how many they have.

    Args:
        root: The repository.
        folders: Names of folders in it.
        limit: Number of modules that is not yet too many.
    """
    counts: dict[str, int] = {}
    for file in sorted(file for folder in folders for file in (root / folder).rglob("*.py")):
        if file.name != "__init__.py":
            room = file.parent.relative_to(root).as_posix()
            counts[room] = counts.get(room, 0) + 1
    return {room: count for room, count in counts.items() if count > limit}


def main() -> None:
    """Print a warning for each large room."""
    for room, count in large_rooms().items():
        print(f"warning: {room} has {count} modules (more than {LIMIT})")


if __name__ == "__main__":
    main()
