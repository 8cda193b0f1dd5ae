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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import attrs

from sarameya_handlers.landing.compactions import Compaction, Compactions
from sarameya_handlers.landing.files import is_there, make_directory, sync
from sarameya_handlers.landing.manifests import DataFile, Manifest, Manifests
from sarameya_handlers.landing.schemas import Schemas

HIDDEN = "_sarameya"
"""What begins with an underscore Spark, pyarrow and Hive take for hidden."""


@attrs.frozen(slots=True)
class Unpublished:
    """Rows of a link or of a compaction whose files are not all in their places yet."""

    what: str
    rows: int
    """Rows that plain readers miss at most."""


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
        # Files only: a directory is named by a partition's value, which may end like a file's name.
        for written in sorted(directory / name for name in _names_below(directory) if name.endswith(".parquet")):
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

    def publish(self, attempt: str, files: Sequence[DataFile]) -> None:
        """Move files that a manifest names to their places, as far as they are not there yet.

        Raises:
            OSError: Some may not have been moved. The next publisher goes on with those.
        """
        directory = self.directory(attempt)
        if not is_there(directory):  # as it is for all but the newest
            return
        self._move([(directory / file.name, self.root / file.name) for file in files])
        self._clear(attempt, files)

    def publish_link(self, manifest: Manifest) -> Manifest:
        self.publish(manifest.link.attempt, manifest.files)
        return manifest

    def publish_compaction(self, compaction: Compaction) -> None:
        """Hide the files that a compaction has replaced, and publish its own. Any process may do it, or finish it.

        In each directory the replaced files go first: a plain reader misses rows for a moment, and sees none twice. To
        keep that moment short, all directories are made before, and names are synced after.
        """
        directory = self.directory(compaction.attempt)
        if not is_there(directory):
            return
        self.compactions.sync()  # whoever put it may have died before its name was on the disk
        away = self.replaced / str(compaction.number)
        moves = [(self.root / name, away / name) for name in compaction.replaced]
        moves += [(directory / file.name, self.root / file.name) for file in compaction.files]
        self._move(sorted(moves, key=self._partition))
        self._clear(compaction.attempt, compaction.files)

    def publish_all(self) -> None:
        """Finish what others have left: chains' heads, and the last compaction."""
        for key in self.manifests.chains():
            if head := self.manifests.head(key):
                self.publish_link(head)
        if last := self.compactions.last():
            self.publish_compaction(last)

    def unpublished(self) -> Iterator[Unpublished]:
        """Links and compactions that were put, but whose files are not in their places yet.

        Whoever puts one publishes it at once. What stays here for longer, somebody has left who died.
        """
        for key in self.manifests.chains():
            if (head := self.manifests.head(key)) and (rows := self._hidden_rows(head.link.attempt, head.files)):
                yield Unpublished(f"{head.link}", rows)
        if (last := self.compactions.last()) and (rows := self._hidden_rows(last.attempt, last.files)):
            yield Unpublished(f"compaction {last.number}", rows)

    def _hidden_rows(self, attempt: str, files: Iterable[DataFile]) -> int:
        directory = self.directory(attempt)
        return sum(file.rows for file in files if is_there(directory / file.name)) if is_there(directory) else 0

    def _partition(self, move: tuple[Path, Path]) -> tuple[Path, bool]:
        """The directory that plain readers see, of a move out of it or into it; moves into it are the last."""
        file, to = move
        is_shown = self.hidden not in to.parents
        return (to if is_shown else file).parent, is_shown

    def _move(self, moves: Sequence[tuple[Path, Path]]) -> None:
        """Move files in this order, as far as they are not moved yet. All new names are on the disk afterwards."""
        pending = [(file, to) for file, to in moves if is_there(file)]
        for directory in sorted({to.parent for _, to in pending}):
            make_directory(directory)
        for file, to in pending:
            with suppress(FileNotFoundError):  # somebody else has just moved it
                file.rename(to)
        for directory in sorted({to.parent for _, to in moves}):
            with suppress(FileNotFoundError):  # what was replaced is swept already
                sync(directory)  # also where somebody else has moved files, and has not come to this

    def _clear(self, attempt: str, files: Sequence[DataFile]) -> None:
        """Remove the directory of an attempt, unless a file is still there that its manifest names."""
        directory = self.directory(attempt)
        if {file.name for file in files}.isdisjoint(_names_below(directory)):
            shutil.rmtree(directory, ignore_errors=True)

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
