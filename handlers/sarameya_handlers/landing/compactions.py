"""What has made few files of many in a landed directory: numbered, each put only if there is none of its number.

    <root>/compactions/00000000000000000003.json      compaction 3: the files that it has replaced, and by which

Links stay as they are: what they brought is in other files now. Of two compactions at once one is put, and the other
one has done its work in vain. Blocking; no Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import attrs
import msgspec

from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.files import put_if_absent, sync
from sarameya_handlers.landing.manifests import DataFile
from sarameya_handlers.landing.numbered import last_number


@attrs.frozen(slots=True)
class Compaction:
    """`number` counts from 1; `replaced` are names of files below the table's root."""

    number: int
    attempt: str
    replaced: tuple[str, ...]
    files: tuple[DataFile, ...]


_ATTEMPT = "compacted"


def attempt_of(number: int) -> str:
    """Return a new attempt at the compaction of this number; its files and its directory are named after it."""
    return f"{_ATTEMPT}-{number}-{uuid4().hex}"


def number_of(attempt: str) -> int | None:
    """Return the number that an attempt tries to put, by its name; None for an attempt at a link."""
    match attempt.split("-"):
        case [word, number, _] if word == _ATTEMPT and number.isdecimal():
            return int(number)
    return None


class Compactions:
    """The compactions below a directory."""

    def __init__(self, root: Path) -> None:
        self._root = root / "compactions"

    def put(self, compaction: Compaction) -> bool:
        """Put it if there is none of its number, durably; False where there is one. Raises OSError, UnansweredError."""
        return put_if_absent(self._path(compaction.number), msgspec.json.encode(compaction, order="deterministic"))

    def take(self, number: int) -> Compaction:
        """Put a compaction of nothing if there is none of this number, and return the one that there is.

        Afterwards no attempt at this number can be put any more, however late its process wakes.
        """
        self.put(Compaction(number, attempt_of(number), (), ()))
        found = self.get(number)
        assert found is not None, "it was put, or there was one"
        return found

    def sync(self) -> None:
        """Bring the names of all compactions to the disk. Raises OSError."""
        sync(self._root)

    def all(self) -> Iterator[Compaction]:
        """Every one, in order. Raises BrokenChainError for one that cannot be read."""
        number = 1
        while (found := self.get(number)) is not None:
            yield found
            number += 1

    def last(self) -> Compaction | None:
        """The newest one. Raises BrokenChainError where it cannot be read."""
        return self.get(last_number(lambda number: self._path(number).exists()))

    def get(self, number: int) -> Compaction | None:
        """The compaction of this number; None if there is none. Raises BrokenChainError for one that cannot be read."""
        path = self._path(number)
        try:
            return msgspec.json.decode(path.read_bytes(), type=Compaction)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise BrokenChainError(f"{path} is no compaction: {error}") from error

    def _path(self, number: int) -> Path:
        return self._root / f"{number:020d}.json"
