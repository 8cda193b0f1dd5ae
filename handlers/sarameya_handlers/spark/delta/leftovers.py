"""Files in a Delta table's directory, mounted here, that lost or unfinished attempts left behind.

A data file is a leftover if neither a commit in the log nor the table's current state names it. Files are listed before
the log is read, so a file that is committed meanwhile is found in the log. Files are compared by name alone: paths
differ, since the log writes them with percent-escapes, Spark returns them without, and partition directories have
escapes of their own. Names are unique, since Delta's writers put a UUID into each.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

import msgspec

from sarameya import HandlerError
from sarameya_handlers.landing.files import TEMPORARY
from sarameya_handlers.spark.delta.place import hidden
from sarameya_handlers.spark.delta.row_files import rows_directory
from sarameya_handlers.spark.tables.table import Leftover

_STAGED = re.compile(r"[0-9a-f]{32}\.parquet|probe-[0-9a-f]{32}\.parquet")
_DATA = re.compile(r"part-.*\.parquet")
ABANDONED_AFTER = 24 * 3600.0
"""Seconds after which an unnamed data file is a leftover. OPTIMIZE and MERGE commit their files only at their end."""
_NAMES_A_FILE = (b'{"add":', b'{"remove":')


class _File(msgspec.Struct):
    path: str


class _Action(msgspec.Struct):
    """An action of a commit that names a file."""

    add: _File | None = None
    remove: _File | None = None


def leftovers(root: Path, current: Callable[[], Iterable[str]], staging: Path) -> list[Leftover]:
    """List the leftovers below a table's root.

    Args:
        root: The table's directory.
        current: Returns the files of the table's current state, as Spark names them.
        staging: The directory of staged files.
    """
    staged = [(path, "a staged file") for path in _entries(staging) if _STAGED.fullmatch(path.name)]
    written = [(path, "data of a write that failed or lost") for path in _entries(rows_directory(root))]
    log_files = _entries(root / "_delta_log")
    commits = [(path, "a commit that was not made") for path in log_files if _is_temporary(path, root)]
    summaries = [(path, "a summary of the log") for path in _entries(hidden(root)) if _is_temporary(path, root)]
    data = [(path, "a data file that no version of the table names") for path in _data_files(root)]
    named = {name for path in current() for name in _names(path)} | _named_in_log(root)
    unnamed = [(path, what) for path, what in data if path.name not in named]
    return [
        leftover
        for path, what in (*staged, *written, *commits, *summaries, *unnamed)
        if (leftover := Leftover.at(path, what, ABANDONED_AFTER if _DATA.fullmatch(path.name) else 0.0)) is not None
    ]


def remove(leftover: Leftover, root: Path | None, staging: Path | None) -> None:
    """Remove a leftover. Raises HandlerError if the file cannot be a leftover of this table."""
    path = Path(leftover.name)
    is_staged = staging is not None and path.parent == staging and _STAGED.fullmatch(path.name)
    is_data = root is not None and root in path.parents and _DATA.fullmatch(path.name)
    is_written = root is not None and path.parent == rows_directory(root)
    if not (is_staged or is_data or is_written or _is_temporary(path, root)):
        raise HandlerError(f"{path} is no leftover of this table")
    if path.is_dir():
        shutil.rmtree(path)
        return
    path.unlink(missing_ok=True)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _is_temporary(path: Path, root: Path | None) -> bool:
    """Return whether this is a temporary file of a commit or a summary."""
    return root is not None and path.parent in (root / "_delta_log", hidden(root)) and path.name.startswith(TEMPORARY)


def _data_files(directory: Path) -> Iterator[Path]:
    """Yield data files, also of partitions. Skips hidden directories, but no partition directory like `_day=1`."""
    for path in _entries(directory):
        if path.is_dir():
            if not path.name.startswith(("_", ".")) or "=" in path.name:
                yield from _data_files(path)
        elif _DATA.fullmatch(path.name):
            yield path


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except FileNotFoundError:
        return []


def _named_in_log(root: Path) -> set[str]:
    named = set()
    for path in _entries(root / "_delta_log"):
        if path.suffix != ".json":
            continue
        try:
            lines = path.read_bytes().splitlines()
        except FileNotFoundError:  # cleaned up meanwhile
            continue
        for line in lines:
            if line.startswith(_NAMES_A_FILE):
                action = msgspec.json.decode(line, type=_Action)
                named |= {name for file in (action.add, action.remove) if file for name in _names(file.path)}
    return named


def _names(path: str) -> tuple[str, str]:
    """Return a file's name as given, and with percent-escapes decoded."""
    name = path.rpartition("/")[2]
    return name, unquote(name)
