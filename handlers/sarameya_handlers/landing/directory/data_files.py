"""Data files of a landed directory: hidden while written, published once a manifest names them.

    <root>/part-orders-0-<from>-<to>-<attempt>.parquet        a published file, which plain readers see
    <root>/_sarameya/landing/<attempt>/...                    files of an attempt that are not published
    <root>/_sarameya/links/..., <root>/_sarameya/compactions  manifests.py and compaction_records.py
    <root>/_sarameya/schemas/...                              the columns of the rows (schemas.py)
    <root>/_sarameya/replaced/<n>/...                         files that compaction n replaced, until they are swept
    <root>/_sarameya/condemned/<attempt>/...                  files of an attempt that a sweep is about to remove

A file that a manifest names is hidden or published, and any process may publish it. Blocking; no Spark.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import attrs

from sarameya_handlers.landing.directory.compaction_records import Compaction, Compactions, number_of
from sarameya_handlers.landing.directory.manifests import DataFile, Manifest, Manifests
from sarameya_handlers.landing.directory.schemas import Schemas
from sarameya_handlers.landing.files import is_there, make_directory, sync
from sarameya_handlers.landing.links import ChainKey

HIDDEN = "_sarameya"
"""Spark, pyarrow and Hive skip names that start with an underscore."""


@attrs.frozen(slots=True)
class Unpublished:
    """A link or compaction whose files are not all published yet."""

    what: str
    rows: int
    """Upper bound of the rows that plain readers miss."""


class DataFiles:
    """Data files below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.hidden = root / HIDDEN
        self.writing = self.hidden / "landing"
        self.replaced = self.hidden / "replaced"
        self.condemned = self.hidden / "condemned"
        self.manifests = Manifests(self.hidden)
        self.compactions = Compactions(self.hidden)
        self.schemas = Schemas(self.hidden)

    # -- being written -------------------------------------------------------------------------------

    def directory(self, attempt: str) -> Path:
        """Return the directory in which an attempt writes. Subdirectories are named as below the root."""
        return self.writing / attempt

    def settle(self, attempt: str, name: Callable[[int], str], rows: Callable[[Path], int]) -> tuple[DataFile, ...]:
        """Give the files of an attempt their final names, and sync files and names to the disk.

        Args:
            attempt: Id of the attempt.
            name: Returns the final name of a file, given its number.
            rows: Counts the rows of a file.
        """
        directory = self.directory(attempt)
        files: list[DataFile] = []
        # Files only: a directory's name is a partition's value, which may end in ".parquet", too.
        for written in sorted(directory / name for name in names_below(directory) if name.endswith(".parquet")):
            sync(written)
            file = written.with_name(name(len(files)))
            written.rename(file)
            files.append(DataFile(str(file.relative_to(directory)), rows(file), file.stat().st_size))
        for parent in sorted({above for file in files for above in (directory / file.name).parents}, reverse=True):
            if self.writing == parent or self.writing in parent.parents:
                sync(parent)
        return tuple(files)

    def require(self, attempt: str, files: Iterable[DataFile]) -> None:
        """Check that the files of an attempt are where it has written them.

        Raises:
            FileNotFoundError: One is missing: a sweep has treated the attempt as abandoned.
        """
        for file in files:
            path = self.directory(attempt) / file.name
            if not is_there(path):
                raise FileNotFoundError(errno.ENOENT, "a sweep removed it while its process slept", str(path))

    def forget(self, attempt: str) -> None:
        """Remove the files of an attempt that no manifest names."""
        shutil.rmtree(self.directory(attempt), ignore_errors=True)

    def discard(self, attempt: str) -> None:
        """Remove the files of an abandoned attempt, unless a link or a compaction has them.

        The attempt's process may be suspended, and continue at any moment to put its manifest. It checks that its files
        exist after it has written the temporary file of the manifest, and before it gives that file its name. So this
        moves the files away first, then removes the temporary file, and only then searches for the manifest: there is
        one by now, or there will never be one.

        Raises:
            BrokenChainError: A manifest cannot be parsed.
            OSError: The files are still where they were, or are moved back by the next try.
        """
        heads = {key: head.link.number for key in self.manifests.chains() if (head := self.manifests.head(key))}
        condemned = self.condemned / attempt
        make_directory(self.condemned)
        try:
            self.directory(attempt).rename(condemned)
        except FileNotFoundError:
            if not is_there(condemned):
                return
            heads = {}  # a sweep died in the middle of this, and links may have been put since
        for put in (*self.manifests.unfinished(), *self.compactions.unfinished()):
            with suppress(FileNotFoundError):
                if attempt.encode() in put.read_bytes():
                    put.unlink()
        files = self._files_of(attempt, heads)
        if files is None:
            shutil.rmtree(condemned)
            return
        condemned.rename(self.directory(attempt))
        if number_of(attempt) is None:
            self.publish(attempt, files)

    def _files_of(self, attempt: str, heads: Mapping[ChainKey, int]) -> tuple[DataFile, ...] | None:
        """Return the files of the manifest of this attempt; None without one. Links below `heads` are not examined."""
        if (number := number_of(attempt)) is not None:
            compaction = self.compactions.get(number)
            return compaction.files if compaction and compaction.attempt == attempt else None
        for key in self.manifests.chains():
            for manifest in self.manifests.since(key, heads.get(key, 1)):
                if manifest.link.attempt == attempt:
                    return manifest.files
        return None

    # -- in their places -----------------------------------------------------------------------------

    def publish(self, attempt: str, files: Sequence[DataFile]) -> None:
        """Publish files that a manifest names, as far as they are still hidden.

        Raises:
            OSError: Some may still be hidden. The next publisher continues with those.
        """
        directory = self.directory(attempt)
        if not is_there(directory):  # all files are published, except those of the newest attempts
            return
        self._move([(directory / file.name, self.root / file.name) for file in files])
        self._clear(attempt, files)

    def publish_link(self, manifest: Manifest) -> Manifest:
        """Publish the files of a link. Return its manifest."""
        self.publish(manifest.link.attempt, manifest.files)
        return manifest

    def publish_compaction(self, compaction: Compaction) -> None:
        """Hide the files that a compaction replaced, and publish its own. Any process may do or finish this.

        In each directory the replaced files go first: a plain reader misses rows for a moment, but sees none twice. To
        keep that moment short, directories are created before it, and names are synced after it.
        """
        directory = self.directory(compaction.attempt)
        if not is_there(directory):
            return
        self.compactions.sync()  # the process that put it may have died before the name was on the disk
        away = self.replaced / str(compaction.number)
        moves = [(self.root / name, away / name) for name in compaction.replaced]
        moves += [(directory / file.name, self.root / file.name) for file in compaction.files]
        self._move(sorted(moves, key=self._move_order))
        self._clear(compaction.attempt, compaction.files)

    def publish_all(self) -> None:
        """Publish what other processes left hidden: the heads of all chains, and the last compaction."""
        for key in self.manifests.chains():
            if head := self.manifests.head(key):
                self.publish_link(head)
        if last := self.compactions.last():
            self.publish_compaction(last)

    def unpublished(self) -> Iterator[Unpublished]:
        """Yield links and compactions that were put, and whose files are not published yet.

        A process that puts one publishes it at once. One that stays unpublished was left by a process that died.
        """
        for key in self.manifests.chains():
            if (head := self.manifests.head(key)) and (rows := self._hidden_rows(head.link.attempt, head.files)):
                yield Unpublished(f"{head.link}", rows)
        if (last := self.compactions.last()) and (rows := self._hidden_rows(last.attempt, last.files)):
            yield Unpublished(f"compaction {last.number}", rows)

    def _hidden_rows(self, attempt: str, files: Iterable[DataFile]) -> int:
        directory = self.directory(attempt)
        return sum(file.rows for file in files if is_there(directory / file.name)) if is_there(directory) else 0

    def _move_order(self, move: tuple[Path, Path]) -> tuple[Path, bool]:
        """Return the sort key of a move: the visible directory that it changes. Within one, moves into it come last."""
        file, to = move
        is_shown = self.hidden not in to.parents
        return (to if is_shown else file).parent, is_shown

    def _move(self, moves: Sequence[tuple[Path, Path]]) -> None:
        """Move the files that are not moved yet, in this order, and sync all new names to the disk."""
        pending = [(file, to) for file, to in moves if is_there(file)]
        for directory in sorted({to.parent for _, to in pending}):
            make_directory(directory)
        for file, to in pending:
            with suppress(FileNotFoundError):  # another process has just moved it
                file.rename(to)
        for directory in sorted({to.parent for _, to in moves}):
            with suppress(FileNotFoundError):  # the replaced files are swept already
                sync(directory)  # also where another process moved the files: it may have died before its sync

    def _clear(self, attempt: str, files: Sequence[DataFile]) -> None:
        """Remove an attempt's directory, unless it still holds a file that the manifest names."""
        directory = self.directory(attempt)
        if {file.name for file in files}.isdisjoint(names_below(directory)):
            shutil.rmtree(directory, ignore_errors=True)

    # -- to be read ----------------------------------------------------------------------------------

    def live(self) -> Iterator[tuple[DataFile, Path]]:
        """Yield the files that hold each record once, and the current path of each."""
        compactions = list(self.compactions.all())
        replaced = {name for compaction in compactions for name in compaction.replaced}
        of_links = (
            (manifest.link.attempt, file)
            for key in self.manifests.chains()
            for manifest in self.manifests.since(key, 1)
            for file in manifest.files
        )
        of_compactions = ((compaction.attempt, file) for compaction in compactions for file in compaction.files)
        for source in (of_links, of_compactions):
            for attempt, file in source:
                if file.name not in replaced:
                    hidden = self.directory(attempt) / file.name
                    yield file, hidden if is_there(hidden) else self.root / file.name


def names_below(directory: Path) -> Iterator[str]:
    """Yield the names of all files below a directory, relative to it.

    Raises:
        OSError: A directory cannot be listed. `os.walk` alone would skip it silently.
    """

    def fail(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # another process removes it
            raise error

    for parent, _, names in os.walk(directory, onerror=fail):
        for name in names:
            yield str(Path(parent, name).relative_to(directory))
