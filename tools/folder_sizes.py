"""Warns of folders with many modules: `python -m tools.folder_sizes`, a part of `make check`.

A folder of about a dozen modules can be understood from its file names alone. A larger one is worth a second look, but
is not an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHECKED = ("runtime", "handlers")
LIMIT = 13
EXCEPTIONS = frozenset({"runtime/sarameya/embedded/apis"})  # one module for each Kafka API, named like the API


def large_folders(root: Path = ROOT, folders: Iterable[str] = CHECKED, limit: int = LIMIT) -> dict[str, int]:
    """Return the folders with more than `limit` modules beside `__init__.py`, and their numbers of modules.

    Args:
        root: The repository.
        folders: Names of folders in it.
        limit: Largest number of modules without a warning.
    """
    counts: dict[str, int] = {}
    for file in sorted(file for folder in folders for file in (root / folder).rglob("*.py")):
        if file.name != "__init__.py":
            folder = file.parent.relative_to(root).as_posix()
            counts[folder] = counts.get(folder, 0) + 1
    return {folder: count for folder, count in counts.items() if count > limit and folder not in EXCEPTIONS}


def main() -> None:
    """Print a warning for each large folder."""
    for folder, count in large_folders().items():
        print(f"warning: {folder} has {count} modules (more than {LIMIT})")


if __name__ == "__main__":
    main()
