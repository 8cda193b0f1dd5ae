"""Files of a Delta table that lost or unfinished attempts left behind.

A data file is a leftover if neither a commit in the log nor the table's current state names it. Files are listed before
the log is read, so a file that is committed meanwhile is found in the log. Files are compared by name alone: paths
differ, since the log writes them with percent-escapes, Spark returns them without, and partition directories have
escapes of their own. Names are unique, since Delta's writers put a UUID into each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from urllib.parse import unquote

import msgspec

from sarameya import HandlerError
from sarameya_handlers.landing.files import TEMPORARY
from sarameya_handlers.landing.stores.store import Store
from sarameya_handlers.spark.delta.history.checkpoints import LOG
from sarameya_handlers.spark.delta.place import HIDDEN
from sarameya_handlers.spark.delta.row_files import rows_directory
from sarameya_handlers.spark.tables.staging import Staging
from sarameya_handlers.spark.tables.table import Leftover

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


def leftovers(store: Store, current: Callable[[], Iterable[str]], staging: Staging) -> list[Leftover]:
    """List the leftovers of a table.

    Args:
        store: The table's files.
        current: Returns the files of the table's current state, as Spark names them.
        staging: Place of staged files.
    """
    written = rows_directory(store)
    attempts = [f"{written}/{name}" for name in store.entries(written)]
    # Commits may name files of the attempts where these are not moved. A late commit may still do so.
    files = {attempt: [*store.names(attempt)] if store.moves_by_copy else [] for attempt in attempts}
    found = [
        *((name, "a commit that was not made", 0.0) for name in store.unfinished(LOG)),
        *((name, "a summary of the log", 0.0) for name in store.unfinished(HIDDEN)),
    ]
    data = sorted(
        name for name in store.names("", _is_visible) if _is_data(name) and not name.startswith(f"{written}/")
    )
    named = {name for path in current() for name in _names(path)} | _named_in_log(store)
    may_be_taken = ABANDONED_AFTER if store.moves_by_copy else 0.0
    found = [
        (attempt, "data of a write that failed or lost", may_be_taken)
        for attempt in attempts
        if not any(_base(file) in named for file in files[attempt])
    ] + found
    unnamed = [name for name in data if _base(name) not in named]
    found += [(name, "a data file that no version of the table names", ABANDONED_AFTER) for name in unnamed]
    kept = (_leftover(store, *each) for each in found)
    return [*staging.leftovers(), *(leftover for leftover in kept if leftover is not None)]


def _leftover(store: Store, name: str, what: str, others_may_take: float) -> Leftover | None:
    if (stored := store.measure(name)) is None:
        return None
    return Leftover(
        name=f"{store.place}/{name}",
        size_bytes=stored.size_bytes,
        changed=stored.changed,
        what=what,
        others_may_take=others_may_take,
    )


def remove(leftover: Leftover, store: Store | None, staging: Staging | None) -> None:
    """Remove a leftover. Raises HandlerError if the file cannot be a leftover of this table."""
    if staging is not None and staging.remove(leftover):
        return
    prefix = "" if store is None else f"{store.place}/"
    name = leftover.name.removeprefix(prefix) if leftover.name.startswith(prefix) else ""
    directory, _, file = name.rpartition("/")
    is_temporary = directory in (LOG, HIDDEN) and file.startswith(TEMPORARY)
    is_written = store is not None and directory == rows_directory(store)
    if store is None or ".." in name or not (is_temporary or is_written or _is_data(name)):
        raise HandlerError(f"{leftover.name} is no leftover of this table")
    store.remove(name)
    if not is_temporary:
        store.remove(f"{directory}/.{file}.crc".lstrip("/"))


def _is_data(name: str) -> bool:
    """Return whether a file is a data file: not in a hidden directory, but a partition `_day=1` is none."""
    *directories, file = name.split("/")
    return all(map(_is_visible, directories)) and _DATA.fullmatch(file) is not None


def _is_visible(directory: str) -> bool:
    return not directory.startswith(("_", ".")) or "=" in directory


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def _named_in_log(store: Store) -> set[str]:
    named = set()
    commits = [f"{LOG}/{entry}" for entry in store.entries(LOG) if entry.endswith(".json")]
    for content in store.get_all(commits):  # without content it was cleaned up meanwhile
        for line in (content or b"").splitlines():
            if line.startswith(_NAMES_A_FILE):
                action = msgspec.json.decode(line, type=_Action)
                named |= {name for file in (action.add, action.remove) if file for name in _names(file.path)}
    return named


def _names(path: str) -> tuple[str, str]:
    """Return a file's name as given, and with percent-escapes decoded."""
    name = path.rpartition("/")[2]
    return name, unquote(name)
