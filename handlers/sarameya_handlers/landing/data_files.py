"""The files of a landed directory: hidden while they are written, in their places once a manifest names them.

    <root>/part-orders-0-<from>-<to>-<attempt>.parquet        in its place, where readers of the plain directory see it
    <root>/_sarameya/landing/<attempt>/...                    what an attempt has written: its own as long as it is here
    <root>/_sarameya/links/..., <root>/_sarameya/compactions  what there is (manifests.py, compactions.py)
    <root>/_sarameya/schemas/...                              what columns its rows have (schemas.py)
    <root>/_sarameya/replaced/<n>/...                         what compaction n has replaced, until it is swept

Whatever a manifest names is either hidden or in its place, and anybody may move it there. Blocking; no Spark.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from sarameya_handlers.landing.compactions import Compaction, Compactions
from sarameya_handlers.landing.files import is_there, make_directory, sync
from sarameya_handlers.landing.manifests import DataFile, Manifest, Manifests
from sarameya_handlers.landing.schemas import Schemas

HIDDEN = "_sarameya"
"""What begins with an underscore Spark, pyarrow and Hive take for hidden."""


class DataFiles:
    """The files below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.hidden = root / HIDDEN
        self.writing = self.hidden / "landing"
        self.replaced = self.hidden / "replaced"
        self.manifests = Manifests(self.hidden)
        self.compactions = Compactions(self.hidden)
        self.schemas = Schemas(self.hidden)

    # -- being written -------------------------------------------------------------------------------

    def directory(self, attempt: str) -> Path:
        """Where this attempt writes its files, below directories as they are below the root."""
        return self.writing / attempt

    def settle(self, attempt: str, name: Callable[[int], str], rows: Callable[[Path], int]) -> tuple[DataFile, ...]:
        """Give what an attempt has written its final names, and bring it to the disk; `name` makes them by their
        number, `rows` counts."""
        directory = self.directory(attempt)
        files: list[DataFile] = []
        for written in sorted(directory.rglob("*.parquet")):
            sync(written)
            file = written.with_name(name(len(files)))
            written.rename(file)
            files.append(DataFile(str(file.relative_to(directory)), rows(file), file.stat().st_size))
        for parent in sorted({above for file in files for above in (directory / file.name).parents}, reverse=True):
            if self.writing == parent or self.writing in parent.parents:
                sync(parent)
        return tuple(files)

    def forget(self, attempt: str) -> None:
        """Remove what an attempt has written and no manifest names."""
        shutil.rmtree(self.directory(attempt), ignore_errors=True)

    # -- in their places -----------------------------------------------------------------------------

    def publish(self, attempt: str, files: Iterable[DataFile]) -> None:
        """Move files that a manifest names to their places, as far as they are not there yet.

        Raises:
            OSError: Some may not have been moved. The next publisher goes on with those.
        """
        directory = self.directory(attempt)
        if not is_there(directory):  # as it is for all but the newest
            return
        names = {file.name for file in files}
        for name in names:
            _move(directory / name, self.root / name)
        if names.isdisjoint(_names_below(directory)):  # a file that a link names is never deleted
            shutil.rmtree(directory, ignore_errors=True)

    def publish_link(self, manifest: Manifest) -> Manifest:
        self.publish(manifest.link.attempt, manifest.files)
        return manifest

    def publish_compaction(self, compaction: Compaction) -> None:
        """What it has replaced goes first: a reader of the plain directory misses rows for a moment, and sees none
        twice."""
        if not is_there(self.directory(compaction.attempt)):
            return
        for name in compaction.replaced:
            _move(self.root / name, self.replaced / str(compaction.number) / name)
        self.publish(compaction.attempt, compaction.files)

    def publish_all(self) -> None:
        """Finish what others have left: chains' heads, and the last compaction."""
        for key in self.manifests.chains():
            if head := self.manifests.head(key):
                self.publish_link(head)
        if last := self.compactions.last():
            self.publish_compaction(last)

    # -- to be read ----------------------------------------------------------------------------------

    def live(self) -> Iterator[tuple[DataFile, Path]]:
        """The files that hold the table's rows, each record once, and where each is at the moment."""
        compactions = list(self.compactions.all())
        replaced = {name for compaction in compactions for name in compaction.replaced}
        brought = (
            (manifest.link.attempt, file)
            for key in self.manifests.chains()
            for manifest in self.manifests.since(key, 1)
            for file in manifest.files
        )
        packed = ((compaction.attempt, file) for compaction in compactions for file in compaction.files)
        for source in (brought, packed):
            for attempt, file in source:
                if file.name not in replaced:
                    hidden = self.directory(attempt) / file.name
                    yield file, hidden if is_there(hidden) else self.root / file.name


def _names_below(directory: Path) -> Iterator[str]:
    """Raises OSError, where a listing is not complete."""

    def fail(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # somebody else removes it
            raise error

    for parent, _, names in os.walk(directory, onerror=fail):
        for name in names:
            yield str(Path(parent, name).relative_to(directory))


def _move(file: Path, to: Path) -> None:
    if not is_there(file):
        return
    make_directory(to.parent)
    try:
        file.rename(to)
    except FileNotFoundError:
        return  # somebody else has just done it
    sync(to.parent)
