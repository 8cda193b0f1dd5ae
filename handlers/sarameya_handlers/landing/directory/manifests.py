"""Chains stored as files: one manifest for each link. A manifest never changes.

    <root>/links/<sink>/<topic>/<partition>/00000000000000000007.json      link 7, and its data files
                                           /head                           the number of a link that exists

A manifest is put only if none of its number exists: a complete, synced temporary file gets its name by `link(2)`, which
fails if the name is taken. This is the compare-and-swap of a chain. It holds on local and mounted POSIX file systems.
The loser gets an error, but does not depend on it: `since` returns the winner. Blocking; no Spark.

Rules that are easily broken:

- A manifest is put after its files, and the directories that name them, are on the disk. A file gets its final name
  after its manifest. So whoever sees a manifest can publish its files, and nobody sees a row before its link. Test:
  `tests/handlers/landing/test_manifests.py::test_manifest_is_on_the_disk_before_it_has_its_name`.
- Files that a link may name are not removed because its put has failed. Only a response says that the name does not
  exist and never will; without one (`UnansweredError`) a later sweep decides. Tests:
  `tests/handlers/landing/test_files.py::test_name_said_to_be_taken_that_is_not_seen_is_unanswered`,
  `tests/handlers/spark/parquet/test_table.py::test_manifest_appearing_late_keeps_its_files`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

import attrs
import msgspec

from sarameya_handlers.landing.directory.numbered import last_number
from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.files import is_there, listed, put_if_absent, put_over, sync, temporary_files, unchecked
from sarameya_handlers.landing.links import ChainKey, Link

logger = logging.getLogger("sarameya.spark")

_DIGITS = 20
_HEAD = "head"
_HINT_EVERY = 16
"""Links between two updates of the head file. An old or missing one costs a few look-ups more."""


@attrs.frozen(slots=True)
class DataFile:
    """Data file of a link. `name` is its final name, relative to the table's root."""

    name: str
    rows: int
    size: int


@attrs.frozen(slots=True)
class Manifest:
    """A link and its data files."""

    link: Link
    files: tuple[DataFile, ...] = ()


class Manifests:
    """Manifests below a directory, which is created if missing."""

    def __init__(self, root: Path) -> None:
        self._root = root / "links"
        self._synced: dict[ChainKey, int] = {}
        """Newest link of each chain that is known to be on the disk."""

    def put(self, manifest: Manifest, check: Callable[[], None] = unchecked) -> bool:
        """Put a manifest durably, if none of its number exists.

        Args:
            manifest: The link and its files.
            check: Called right before the link is made; what it raises propagates. See `put_if_absent`.

        Returns:
            False if one exists, whoever put it.

        Raises:
            UnansweredError: The outcome is unknown.
            OSError: The manifest was not put, and will not be.
        """
        link = manifest.link
        directory = self._directory(link.key)
        content = msgspec.json.encode(manifest, order="deterministic")
        if not put_if_absent(directory / _name(link.number), content, check):
            return False
        # The link exists for good from here on: a later failure must not look like a failure of the put.
        self._synced[link.key] = link.number
        if link.number % _HINT_EVERY == 0:
            self._hint(directory, link.number)
        return True

    def sync(self, link: Link) -> None:
        """Sync a link that was found to the disk. Its writer may have died before it did.

        Raises:
            OSError: The link may be lost when the machine goes down.
        """
        if link.number > self._synced.get(link.key, 0):
            sync(self._directory(link.key))
            self._synced[link.key] = link.number

    def get(self, key: ChainKey, number: int) -> Manifest | None:
        """Return the manifest of a link, or None.

        Raises:
            BrokenChainError: It cannot be parsed, or is another link's.
        """
        path = self._directory(key) / _name(number)
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            manifest = msgspec.json.decode(text, type=Manifest)
        except msgspec.MsgspecError as error:
            raise BrokenChainError(f"{path} is no manifest: {error}") from error
        if (manifest.link.key, manifest.link.number) != (key, number):
            raise BrokenChainError(f"{path} is the manifest of {manifest.link}: was it moved?")
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
        directory = self._directory(key)
        number = last_number(lambda number: is_there(directory / _name(number)), self._hinted(key))
        return self.get(key, number) if number else None

    def chains(self) -> Iterator[ChainKey]:
        """Yield the keys of all chains. Raises OSError."""
        for sink in listed(self._root):
            for topic in listed(sink):
                for partition in listed(topic):
                    yield ChainKey(unquote(sink.name), unquote(topic.name), int(partition.name))

    def unfinished(self) -> Iterator[Path]:
        """Yield temporary files of manifests that are being put, or whose writer died. Raises OSError."""
        for key in self.chains():
            yield from temporary_files(self._directory(key))

    def _directory(self, key: ChainKey) -> Path:
        return self._root / _quoted(key.sink) / _quoted(key.topic) / str(key.partition)

    def _hint(self, directory: Path, number: int) -> None:
        """Write where to start searching for the head. It may lag behind, but is never ahead; it only saves time."""
        try:
            put_over(directory / _HEAD, str(number).encode())
        except OSError as error:
            logger.info("%s: no hint for link %d, which only costs time: %s", directory, number, error)

    def _hinted(self, key: ChainKey) -> int:
        directory = self._directory(key)
        with suppress(OSError, ValueError):
            number = int((directory / _HEAD).read_text())
            if is_there(directory / _name(number)):
                return number
        return 0


def _name(number: int) -> str:
    return f"{number:0{_DIGITS}d}.json"


def _quoted(name: str) -> str:
    """Return a name quoted for use as a directory's name. "." and ".." are quoted, too."""
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")
