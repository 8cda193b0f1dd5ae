"""What has made few files of many in a landed directory: numbered, each put only if there is none of its number.

    <root>/compactions/00000000000000000003.json      compaction 3: the files that it has replaced, and by which

Links stay as they are: what they brought is in other files now. Of two compactions at once one is put, and the other
one has done its work in vain. Blocking; no Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import msgspec

from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.files import put_if_absent
from sarameya_handlers.landing.manifests import DataFile
from sarameya_handlers.landing.numbered import last_number


@attrs.frozen(slots=True)
class Compaction:
    """`number` counts from 1; `replaced` are names of files below the table's root."""

    number: int
    attempt: str
    replaced: tuple[str, ...]
    files: tuple[DataFile, ...]


class Compactions:
    """The compactions below a directory."""

    def __init__(self, root: Path) -> None:
        self._root = root / "compactions"

    def put(self, compaction: Compaction) -> bool:
        """Put it if there is none of its number, durably; False where there is one. Raises OSError, UnansweredError."""
        return put_if_absent(self._path(compaction.number), msgspec.json.encode(compaction, order="deterministic"))

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
