"""Chains kept as files: a manifest for each link, which is there or not, and once it is there never changes.

    <root>/links/<sink>/<topic>/<partition>/00000000000000000007.json      link 7, and the files that it brought
                                           /head                           a number: a link that is surely there

A manifest is put only if there is none of its number: a temporary file, complete and on the disk, is given its name
by `link(2)`, which fails where the name is taken. That is the compare-and-swap of a chain. It holds on local and on
mounted POSIX file systems; who loses hears of it, but nobody needs to: `since` tells who won. Blocking; no Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

import attrs
import msgspec

from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.files import TEMPORARY, put_if_absent, put_over, sync
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.landing.numbered import last_number

logger = logging.getLogger("sarameya.spark")

_DIGITS = 20
_HEAD = "head"
_HINT_EVERY = 16
"""Links between two hints. An old hint, or none, costs a few look-ups more."""


@attrs.frozen(slots=True)
class DataFile:
    """A file that a link brought. `name` is its final one, below the table's root."""

    name: str
    rows: int
    size: int


@attrs.frozen(slots=True)
class Manifest:
    """What a link is, and what it brought."""

    link: Link
    files: tuple[DataFile, ...] = ()


class Manifests:
    """The manifests below a directory, which is made if it is not there."""

    def __init__(self, root: Path) -> None:
        self._root = root / "links"
        self._synced: dict[ChainKey, int] = {}
        """The newest link of each chain that is known to be on the disk."""

    def put(self, manifest: Manifest) -> bool:
        """Put it if there is none of its number, durably; False where there is one, whoever's that is.

        Raises OSError, and UnansweredError, as `put_if_absent` does.
        """
        link = manifest.link
        directory = self._directory(link.key)
        if not put_if_absent(directory / _name(link.number), msgspec.json.encode(manifest, order="deterministic")):
            return False
        # From here on the link is there for good: nothing that fails may be taken for a failure of the put.
        self._synced[link.key] = link.number
        if link.number % _HINT_EVERY == 0:
            self._hint(directory, link.number)
        return True

    def sync(self, link: Link) -> None:
        """Bring a link that was found to the disk: whoever put it may have died, or failed, before doing so.

        Raises:
            OSError: The link may be lost when the machine goes down.
        """
        if link.number > self._synced.get(link.key, 0):
            sync(self._directory(link.key))
            self._synced[link.key] = link.number

    def get(self, key: ChainKey, number: int) -> Manifest | None:
        """The manifest of this link; None if there is none. Raises BrokenChainError for one that cannot be read."""
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
        """Every manifest from this link on, in order, up to the first number that has none."""
        while (manifest := self.get(key, number)) is not None:
            yield manifest
            number += 1

    def head(self, key: ChainKey) -> Manifest | None:
        """The last one; None for a chain that has not begun. Raises BrokenChainError."""
        directory = self._directory(key)
        number = last_number(lambda number: (directory / _name(number)).exists(), self._hinted(key))
        return self.get(key, number) if number else None

    def chains(self) -> Iterator[ChainKey]:
        """Every chain that there is."""
        for partition in sorted(self._root.glob("*/*/*")):
            topic = partition.parent
            yield ChainKey(unquote(topic.parent.name), unquote(topic.name), int(partition.name))

    def unfinished(self) -> Iterator[Path]:
        """Manifests that somebody was about to put, and is or died of it."""
        return self._root.glob(f"*/*/*/{TEMPORARY}*")

    def _directory(self, key: ChainKey) -> Path:
        return self._root / _quoted(key.sink) / _quoted(key.topic) / str(key.partition)

    def _hint(self, directory: Path, number: int) -> None:
        """Write where to begin to look for the head. It may lag behind, never be ahead; only time depends on it."""
        try:
            put_over(directory / _HEAD, str(number).encode())
        except OSError as error:
            logger.info("%s: no hint for link %d, which only costs time: %s", directory, number, error)

    def _hinted(self, key: ChainKey) -> int:
        directory = self._directory(key)
        with suppress(OSError, ValueError):
            number = int((directory / _HEAD).read_text())
            if (directory / _name(number)).exists():
                return number
        return 0


def _name(number: int) -> str:
    return f"{number:0{_DIGITS}d}.json"


def _quoted(name: str) -> str:
    """A name as a directory's: "." and ".." are none, and a sink may be called anything."""
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")
