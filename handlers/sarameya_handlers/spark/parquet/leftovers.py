"""Leftovers in a directory of Parquet files. The audit lists them, and removes them one by one.

Leftovers are data of lost attempts, manifests and schemas that were not put, and files that a compaction
has replaced.
"""

from __future__ import annotations

from collections.abc import Sequence

from sarameya import HandlerError
from sarameya_handlers.landing.directory.compaction_records import number_of
from sarameya_handlers.landing.directory.data_files import REPLACED, WRITING, DataFiles, InUseError, directory_of
from sarameya_handlers.landing.directory.manifests import HIDDEN
from sarameya_handlers.spark.tables.table import KeptLeftoverError, Leftover


def leftovers(files: DataFiles) -> Sequence[Leftover]:
    """Return the leftovers of a directory. A caller must leave young ones alone: their attempts may still run."""
    store = files.store
    # Only files of a head may still be unpublished: the owner that appends the next link publishes them first. So it is
    # with compactions.
    heads = [head.link for key in files.manifests.chains() if (head := files.manifests.head(key))]
    linked = {directory_of(link) for link in heads} | {directory_of(link.attempt) for link in heads}
    if last := files.compactions.last():
        linked.add(directory_of(last.attempt))
    written = [f"{WRITING}/{name}" for name in store.entries(WRITING)]
    found = [
        *((name, _attempted(name)) for name in written if name not in linked),
        *((name, "a manifest that was not put") for name in files.manifests.unfinished()),
        *((name, "a compaction that was not put") for name in files.compactions.unfinished()),
        *((name, "a schema that was not put") for name in files.schemas.unfinished()),
        *((f"{REPLACED}/{name}", f"files that compaction {name} has replaced") for name in store.entries(REPLACED)),
        *((name, "a file that a compaction has replaced, and the store has put back") for name in files.returned()),
    ]
    return [
        Leftover(name=f"{store.place}/{name}", size_bytes=stored.size_bytes, changed=stored.changed, what=what)
        for name, what in found
        if (stored := store.measure(name)) is not None
    ]


def _attempted(name: str) -> str:
    what = "a write" if number_of(name.removeprefix(f"{WRITING}/")) is None else "a compaction"
    return f"data of {what} that failed or lost"


def remove(files: DataFiles, leftover: Leftover) -> None:
    """Remove a leftover, unless it belongs to a link or a compaction that has been put meanwhile.

    Raises:
        HandlerError: The path cannot be a leftover of this directory.
        KeptLeftoverError: It may still be used.
        OSError: The leftover cannot be removed.
    """
    name = leftover.name.removeprefix(f"{files.store.place}/")
    if (not name.startswith(f"{HIDDEN}/") and name not in files.returned()) or ".." in name:
        raise HandlerError(f"{leftover.name} is no leftover of parquet:{files.store.place}")
    if not name.startswith(f"{WRITING}/"):
        files.store.remove(name)
        return
    try:
        files.discard(name.removeprefix(f"{WRITING}/"))
    except InUseError as error:
        raise KeptLeftoverError(str(error)) from error
