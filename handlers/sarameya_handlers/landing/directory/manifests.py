"""Chains stored as files: one manifest for each link. A manifest never changes.

    _sarameya/links/<sink>/<topic>/<partition>/00000000000000000007.json      link 7, and its data files
                                              /head                           the number of a link that exists

A manifest is put only if none of its number exists (stores/store.py). This is the compare-and-swap of a chain. The
loser gets an error, but does not depend on it: `since` returns the winner. Blocking; no Spark.

Rules that are easily broken:

- A manifest is put after its files, and the directories that name them, are on the disk. A file gets its final name
  after its manifest. So whoever sees a manifest can publish its files, and nobody sees a row before its link. Test:
  `tests/handlers/landing/test_manifests.py::test_manifest_is_synced_before_it_gets_its_name`.
- Files that a link may name are not removed because its put has failed. Only a response says that the name does not
  exist and never will; without one (`UnansweredError`) a later sweep decides. Tests:
  `tests/handlers/landing/test_files.py::test_existing_name_that_is_not_found_is_unanswered`,
  `tests/handlers/spark/parquet/test_table.py::test_manifest_appearing_late_keeps_its_files`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote, unquote

import attrs
import msgspec

from sarameya_handlers.landing.directory.numbered import last_number
from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.landing.stores.store import Store

logger = logging.getLogger("sarameya.spark")

HIDDEN = "_sarameya"
"""Spark, pyarrow and Hive skip names that start with an underscore."""
_LINKS = f"{HIDDEN}/links"
_DIGITS = 20
_HEAD = "head"
_HINT_EVERY = 16
"""Links between two updates of the head file. An old or missing one costs a few look-ups more."""


@attrs.frozen(slots=True)
class DataFile:
    """Data file of a link or a compaction. Names are relative to the table's root."""

    name: str
    """Name once it is published."""
    rows: int
    size: int
    written: str = ""
    """Name under which it was written. Manifests of early versions lack it: `DataFiles.hidden_name` derives it."""


@attrs.frozen(slots=True)
class Manifest:
    """A link and its data files."""

    link: Link
    files: tuple[DataFile, ...] = ()


class Manifests:
    """Manifests of a landed directory."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._synced: dict[ChainKey, int] = {}
        """Newest link of each chain that is known to be durable."""

    def put(self, manifest: Manifest) -> bool:
        """Put a manifest durably, if none of its number exists.

        Returns:
            False if one exists, whoever put it.

        Raises:
            UnansweredError: The outcome is unknown.
            OSError: The manifest was not put, and will not be.
        """
        link = manifest.link
        directory = _directory(link.key)
        content = msgspec.json.encode(manifest, order="deterministic")
        if not self._store.put_if_absent(_name(directory, link.number), content):
            return False
        # The link exists for good from here on: a later failure must not look like a failure of the put.
        self._synced[link.key] = link.number
        if link.number % _HINT_EVERY == 0:
            self._hint(directory, link.number)
        return True

    def sync(self, link: Link) -> None:
        """Make a link durable that was found. Its writer may have died before it did.

        Raises:
            OSError: The link may be lost when the machine goes down.
        """
        if link.number > self._synced.get(link.key, 0):
            self._store.sync_names(_directory(link.key))
            self._synced[link.key] = link.number

    def get(self, key: ChainKey, number: int) -> Manifest | None:
        """Return the manifest of a link, or None.

        Raises:
            BrokenChainError: It cannot be parsed, or is another link's.
        """
        name = _name(_directory(key), number)
        text = self._store.get(name)
        if text is None:
            return None
        place = f"{self._store.place}/{name}"
        try:
            manifest = msgspec.json.decode(text, type=Manifest)
        except msgspec.MsgspecError as error:
            raise BrokenChainError(f"{place} is no manifest: {error}") from error
        if (manifest.link.key, manifest.link.number) != (key, number):
            raise BrokenChainError(f"{place} is the manifest of {manifest.link}: was it moved?")
        return manifest

    def since(self, key: ChainKey, number: int) -> Iterator[Manifest]:
        """Yield the manifests from this number on, up to the first number without one."""
        while (manifest := self.get(key, number)) is not None:
            yield manifest
            number += 1

    def head(self, key: ChainKey) -> Manifest | None:
        """Return the manifest of the last link, or None for an empty chain.

        Raises:
            BrokenChainError: It cannot be parsed, or is another link's.
        """
        directory = _directory(key)
        number = last_number(lambda number: self._store.is_there(_name(directory, number)), self._hinted(directory))
        return self.get(key, number) if number else None

    def chains(self) -> Iterator[ChainKey]:
        """Yield the keys of all chains. Raises OSError."""
        for sink in self._store.entries(_LINKS):
            for topic in self._store.entries(f"{_LINKS}/{sink}"):
                for partition in self._store.entries(f"{_LINKS}/{sink}/{topic}"):
                    yield ChainKey(unquote(sink), unquote(topic), int(partition))

    def unfinished(self) -> Iterator[str]:
        """Yield the files of manifests that are being put, or whose writer died. Raises OSError."""
        for key in self.chains():
            yield from self._store.unfinished(_directory(key))

    def _hint(self, directory: str, number: int) -> None:
        """Write where to start searching for the head. It may lag behind, but is never ahead; it only saves time."""
        try:
            self._store.put_over(f"{directory}/{_HEAD}", str(number).encode())
        except OSError as error:
            logger.info("%s: no hint was written for link %d, so searches take longer: %s", directory, number, error)

    def _hinted(self, directory: str) -> int:
        with suppress(OSError, ValueError):
            number = int(self._store.get(f"{directory}/{_HEAD}") or 0)
            if self._store.is_there(_name(directory, number)):
                return number
        return 0


def _directory(key: ChainKey) -> str:
    return f"{_LINKS}/{_quoted(key.sink)}/{_quoted(key.topic)}/{key.partition}"


def _name(directory: str, number: int) -> str:
    return f"{directory}/{number:0{_DIGITS}d}.json"


def _quoted(name: str) -> str:
    """Return a name quoted for use as a directory's name. "." and ".." are quoted, too."""
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")
