"""Leftovers in a directory of Parquet files. The audit lists them, and removes them one by one.

Leftovers are staged files, data of lost attempts, manifests and schemas that were not put, and files that a compaction
has replaced.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from sarameya import HandlerError
from sarameya_handlers.landing.directory.compaction_records import number_of
from sarameya_handlers.landing.directory.data_files import DataFiles
from sarameya_handlers.landing.files import is_there, listed
from sarameya_handlers.spark.tables.table import Leftover


def leftovers(files: DataFiles, staging: Path) -> Sequence[Leftover]:
    """Return the leftovers of a directory. A caller must leave young ones alone: their attempts may still run."""
    if not is_there(files.hidden):
        return []
    # Only files of a head may still be unpublished: the owner that appends the next link publishes them first.
    linked = {head.link.attempt for key in files.manifests.chains() if (head := files.manifests.head(key))}
    linked |= {compaction.attempt for compaction in files.compactions.all()}
    found = [
        *((path, "a staged file") for path in listed(staging)),
        *((path, _attempted(path.name)) for path in listed(files.writing) if path.name not in linked),
        *((path, _attempted(path.name)) for path in listed(files.condemned)),
        *((path, "a manifest that was not put") for path in files.manifests.unfinished()),
        *((path, "a compaction that was not put") for path in files.compactions.unfinished()),
        *((path, "a schema that was not put") for path in files.schemas.unfinished()),
        *((path, f"files that compaction {path.name} has replaced") for path in listed(files.replaced)),
    ]
    return [leftover for path, what in found if (leftover := Leftover.at(path, what)) is not None]


def _attempted(attempt: str) -> str:
    what = "a write" if number_of(attempt) is None else "a compaction"
    return f"data of {what} that failed or lost"


def remove(files: DataFiles, leftover: Leftover) -> None:
    """Remove a leftover, unless it belongs to a link or a compaction that has been put meanwhile.

    Raises:
        HandlerError: The path cannot be a leftover of this directory.
        OSError: The leftover cannot be removed.
    """
    path = Path(leftover.name)
    if files.hidden not in path.parents:
        raise HandlerError(f"{path} is no leftover of parquet:{files.root}")
    if path.parent in (files.writing, files.condemned):
        files.discard(path.name)
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
