"""Data files of a landed directory: hidden while written, published once a manifest names them.

    <root>/part-orders-0-<from>-<to>-<attempt>.parquet        a published file, which plain readers see
    <root>/_sarameya/landing/<attempt>-<n>-<chain>/...        files of an attempt at link n that are not published
    <root>/_sarameya/landing/compacted-<n>-<id>/...           those of an attempt at compaction n
    <root>/_sarameya/links/..., <root>/_sarameya/compactions  manifests.py and compaction_records.py
    <root>/_sarameya/schemas/...                              the columns of the rows (schemas.py)
    <root>/_sarameya/replaced/<n>/...                         files that compaction n replaced, until they are swept

A file that a manifest names is hidden or published, and any process may publish it. Blocking; no Spark.

A rule that is easily broken:

- An attempt's files are removed only if another attempt has its number. Its process may be suspended, however long, and
  continue with the put of its manifest. Test:
  `tests/handlers/spark/parquet/test_table.py::test_write_that_may_still_be_linked_is_kept`.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import PurePosixPath

import attrs

from sarameya_handlers.landing.directory.compaction_records import Compaction, Compactions, number_of
from sarameya_handlers.landing.directory.manifests import HIDDEN, DataFile, Manifest, Manifests
from sarameya_handlers.landing.directory.schemas import Schemas
from sarameya_handlers.landing.files import PROBE
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.landing.stores.store import Store

WRITING = f"{HIDDEN}/landing"
REPLACED = f"{HIDDEN}/replaced"
TOGETHER = "-and-others"
"""End of the name of a directory in which one job writes several attempts. Then it moves them to their own."""


@attrs.frozen(slots=True)
class Unpublished:
    """A link or compaction whose files are not all published yet."""

    what: str
    rows: int
    """Upper bound of the rows that plain readers miss."""


class InUseError(Exception):
    """Files cannot be removed: a link or a compaction may still use them."""


class DataFiles:
    """Data files in a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.manifests = Manifests(store)
        self.compactions = Compactions(store)
        self.schemas = Schemas(store)

        self._keys: dict[str, ChainKey] = {}
        """Known chains by the digests in directories' names."""
        self._published: dict[ChainKey, int] = {}
        """Newest link of each chain whose files are known to be published."""

    # -- being written -------------------------------------------------------------------------------

    def settle(
        self, attempt: Link | str, name: Callable[[int], str], rows: Callable[[str], int]
    ) -> tuple[DataFile, ...]:
        """Make the files of an attempt durable, and choose their final names.

        Args:
            attempt: The link that is attempted, or the id of an attempt at a compaction.
            name: Returns the final name of a file, given its number.
            rows: Counts the rows of a file, given its present name.
        """
        directory = directory_of(attempt)
        # Files only: a directory's name is a partition's value, which may end in ".parquet", too.
        written = sorted(name for name in self.store.names(directory) if name.endswith(".parquet"))
        self.store.sync_files(directory, written)
        files: list[DataFile] = []
        for present in written:
            final = PurePosixPath(present).relative_to(directory).with_name(name(len(files)))
            if (stored := self.store.measure(present)) is None:
                raise FileNotFoundError(errno.ENOENT, "another program removed it", present)
            files.append(DataFile(str(final), rows(present), stored.size_bytes, present))
        return tuple(files)

    def forget(self, attempt: Link | str) -> None:
        """Remove the files of an attempt that no manifest names, and none ever will."""
        with suppress(OSError):  # a sweep removes them
            self.store.remove(directory_of(attempt))

    def discard(self, name: str) -> None:
        """Remove the files of an abandoned attempt. If a link or a compaction has them, publish them instead.

        Args:
            name: Name of the attempt's directory in `WRITING`.

        Raises:
            InUseError: Its process may still put its link: nothing else has landed in its partition.
            BrokenChainError: A manifest cannot be parsed.
            OSError: Some files may be left.
        """
        directory = f"{WRITING}/{name}"
        winner = None if name.endswith(TOGETHER) or PROBE in name else self._winner(name)
        if winner is not None and _directory(winner) == directory:
            self._publish_found(winner)
        self.store.remove(directory)

    def _winner(self, name: str) -> Manifest | Compaction:
        """Return the link or compaction that has this attempt's number."""
        if (number := number_of(name)) is not None:
            return self.compactions.get(number) or self.compactions.skip(number)
        _, *rest = name.rsplit("-", 2)
        if len(rest) < 2 or not rest[0].isdecimal():
            raise InUseError("an early version wrote it; remove it by hand once no process of that version runs")
        number, digest = int(rest[0]), rest[1]
        if digest not in self._keys:
            self._keys = {_digest(key): key for key in self.manifests.chains()}
        key = self._keys.get(digest)
        if key is None or (manifest := self.manifests.get(key, number)) is None:
            raise InUseError(f"its process may still put link {number}; sweep again once its partition has landed")
        return manifest

    # -- in their places -----------------------------------------------------------------------------

    def publish_link(self, manifest: Manifest, *, is_new: bool = False) -> Manifest:
        """Publish the files of a link, as far as they are still hidden. Return its manifest.

        Args:
            manifest: The link.
            is_new: True if nobody can have published it before.

        Raises:
            OSError: Some may still be hidden. The next publisher continues with those.
        """
        link = manifest.link
        if is_new:
            self._publish(manifest, manifest.files)
        elif link.number > self._published.get(link.key, 0):
            self._publish_found(manifest)
        else:
            return manifest
        self._published[link.key] = link.number
        return manifest

    def publish_compaction(self, compaction: Compaction) -> None:
        """Hide the files that a compaction replaced, and publish its own. Any process may do or finish this.

        In each directory the replaced files go first: a plain reader misses rows for a moment, but sees none twice. To
        keep that moment short, directories are created before it, and names are synced after it.
        """
        self._publish_found(compaction)

    def _publish_found(self, source: Manifest | Compaction) -> None:
        """Publish the hidden files of a link or compaction, regardless of the process that put it.

        A file that has been compacted since may be hidden again: an object store may execute a put late. Its rows are
        in another file now, so it must not be published.
        """
        directory = _directory(source)
        if not self.store.has_files(directory):  # all files are published, except those of the newest attempts
            return
        if isinstance(source, Compaction):
            self.compactions.sync()  # the process that put it may have died before the name was on the disk
        replaced = {name for compaction in self.compactions.all() for name in compaction.replaced}
        self._publish(source, [file for file in source.files if file.name not in replaced])
        for file in source.files:
            if file.name in replaced:
                self.store.remove(hidden_name(source, file))
        self.store.tidy(directory)

    def _publish(self, source: Manifest | Compaction, files: Sequence[DataFile]) -> None:
        moves = [(hidden_name(source, file), file.name) for file in files]
        if isinstance(source, Compaction):
            moves += [(name, f"{REPLACED}/{source.number}/{name}") for name in source.replaced]
        self.store.move(sorted(moves, key=_move_order))
        self.store.tidy(_directory(source))

    def returned(self) -> list[str]:
        """Return visible files that a compaction has replaced: an object store has executed a copy late."""
        done = [compaction for compaction in self.compactions.all() if self.is_published(compaction)]
        replaced = {name for compaction in done for name in compaction.replaced}
        return sorted(replaced.intersection(self.store.names(""))) if replaced else []

    def publish_all(self) -> None:
        """Publish what other processes left hidden: the heads of all chains, and the last compaction."""
        self._published.clear()  # the directory may be a backup's
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
            if (head := self.manifests.head(key)) and (rows := self._hidden_rows(head)):
                yield Unpublished(f"{head.link}", rows)
        if (last := self.compactions.last()) and (rows := self._hidden_rows(last)):
            yield Unpublished(f"compaction {last.number}", rows)

    def _hidden_rows(self, source: Manifest | Compaction) -> int:
        if not self.store.has_files(_directory(source)):
            return 0
        return sum(file.rows for file in source.files if self.store.is_there(hidden_name(source, file)))

    def is_published(self, compaction: Compaction) -> bool:
        """Return whether all files of a compaction are in their places, and those that it replaced are not."""
        return not self._hidden_rows(compaction)

    # -- to be read ----------------------------------------------------------------------------------

    def live(self) -> list[tuple[DataFile, str]]:
        """Return the files that hold each record once, and the current name of each."""
        compactions = list(self.compactions.all())
        replaced = {name for compaction in compactions for name in compaction.replaced}
        links = (manifest for key in self.manifests.chains() for manifest in self.manifests.since(key, 1))
        sources: Iterator[Manifest | Compaction] = chain(links, compactions)
        found = [
            (file, hidden_name(source, file))
            for source in sources
            for file in source.files
            if file.name not in replaced
        ]
        hidden = set(self.store.names(WRITING))  # last: a file that is not there by now is published
        return [(file, name if name in hidden else file.name) for file, name in found]


def directory_of(attempt: Link | str) -> str:
    """Return the directory in which an attempt writes. Subdirectories are named as below the root.

    Args:
        attempt: The link that is attempted, or the id of an attempt at a compaction.
    """
    if isinstance(attempt, str):
        return f"{WRITING}/{attempt}"
    return f"{WRITING}/{attempt.attempt}-{attempt.number}-{_digest(attempt.key)}"


def hidden_name(source: Manifest | Compaction, file: DataFile) -> str:
    """Return the name of a file before it is published."""
    return file.written or f"{_directory(source)}/{file.name}"


def _directory(source: Manifest | Compaction) -> str:
    if isinstance(source, Compaction):
        return directory_of(source.attempt)
    is_early = any(not file.written for file in source.files)
    return directory_of(source.link.attempt if is_early else source.link)


def _digest(key: ChainKey) -> str:
    text = "\0".join((key.sink, key.topic, str(key.partition)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _move_order(move: tuple[str, str]) -> tuple[str, bool]:
    """Return the sort key of a move: the visible directory that it changes. Within one, moves into it come last."""
    name, to = move
    is_shown = not to.startswith(f"{HIDDEN}/")
    return str(PurePosixPath(to if is_shown else name).parent), is_shown
