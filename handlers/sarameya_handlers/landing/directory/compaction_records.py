"""Records of compactions in a landed directory: numbered, each put only if none of its number exists.

    <root>/compactions/00000000000000000003.json      compaction 3: the files that it replaced, and the new ones

Links do not change: their rows are in other files now. If two processes compact at the same time, one of them puts its
compaction, and the other discards the files that it has written. Blocking; no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import attrs
import msgspec

from sarameya_handlers.landing.directory.manifests import DataFile
from sarameya_handlers.landing.directory.numbered import last_number
from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.files import is_there, put_if_absent, sync, temporary_files, unchecked


@attrs.frozen(slots=True)
class Compaction:
    """A compaction: the files that it replaced, and the files that replace them."""

    number: int
    """Counts from 1."""
    attempt: str
    replaced: tuple[str, ...]
    """Names of files, relative to the table's root."""
    files: tuple[DataFile, ...]


_ATTEMPT = "compacted"


def attempt_of(number: int) -> str:
    """Return the id of a new attempt at this compaction. Its files and its directory are named after it."""
    return f"{_ATTEMPT}-{number}-{uuid4().hex}"


def number_of(attempt: str) -> int | None:
    """Return the number of the compaction that an attempt id belongs to; None for an attempt at a link."""
    match attempt.split("-"):
        case [word, number, _] if word == _ATTEMPT and number.isdecimal():
            return int(number)
    return None


class Compactions:
    """Compactions below a directory."""

    def __init__(self, root: Path) -> None:
        self._root = root / "compactions"

    def put(self, compaction: Compaction, check: Callable[[], None] = unchecked) -> bool:
        """Put a compaction durably, if none of its number exists.

        Args:
            compaction: The files that it replaces, and its own.
            check: Called right before it gets its name; what it raises propagates. See `put_if_absent`.

        Returns:
            False if another compaction has this number.

        Raises:
            UnansweredError: The outcome is unknown.
            OSError: The compaction was not put, and will not be.
        """
        content = msgspec.json.encode(compaction, order="deterministic")
        return put_if_absent(self._path(compaction.number), content, check)

    def unfinished(self) -> Sequence[Path]:
        """Return temporary files of compactions that are being put, or whose writer died. Raises OSError."""
        return temporary_files(self._root)

    def sync(self) -> None:
        """Sync the names of all compactions to the disk.

        Raises:
            OSError: They may be lost when the machine goes down.
        """
        sync(self._root)

    def all(self) -> Iterator[Compaction]:
        """Yield all compactions in order.

        Raises:
            BrokenChainError: One cannot be parsed.
        """
        number = 1
        while (found := self.get(number)) is not None:
            yield found
            number += 1

    def last(self) -> Compaction | None:
        """Return the newest compaction, or None.

        Raises:
            BrokenChainError: It cannot be parsed.
        """
        return self.get(last_number(lambda number: is_there(self._path(number))))

    def get(self, number: int) -> Compaction | None:
        """Return the compaction of this number, or None.

        Raises:
            BrokenChainError: It cannot be parsed.
        """
        path = self._path(number)
        try:
            return msgspec.json.decode(path.read_bytes(), type=Compaction)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise BrokenChainError(f"{path} is no compaction: {error}") from error

    def _path(self, number: int) -> Path:
        return self._root / f"{number:020d}.json"
