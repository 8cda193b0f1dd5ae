"""Records of compactions in a landed directory: numbered, each put only if none of its number exists.

    _sarameya/compactions/00000000000000000003.json      compaction 3: the files that it replaced, and the new ones

Links do not change: their rows are in other files now. If two processes compact at the same time, one of them puts its
compaction, and the other discards the files that it has written. Blocking; no Spark.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from uuid import uuid4

import attrs
import msgspec

from sarameya_handlers.landing.directory.manifests import HIDDEN, DataFile
from sarameya_handlers.landing.directory.numbered import last_number
from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.stores.store import Store

_COMPACTIONS = f"{HIDDEN}/compactions"


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
    """Compactions of a landed directory."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, compaction: Compaction) -> bool:
        """Put a compaction durably, if none of its number exists.

        Returns:
            False if another compaction has this number.

        Raises:
            UnansweredError: The outcome is unknown.
            OSError: The compaction was not put, and will not be.
        """
        content = msgspec.json.encode(compaction, order="deterministic")
        return self._store.put_if_absent(_name(compaction.number), content)

    def skip(self, number: int) -> Compaction:
        """Return the compaction of this number. Put an empty one if there is none, so that no other attempt wins.

        Raises:
            OSError: It was not put, or the outcome is unknown.
        """
        self.put(Compaction(number, attempt_of(number), (), ()))
        if (found := self.get(number)) is None:
            raise OSError(
                errno.EAGAIN, "it could not be written; run the command again", f"{self._store.place}/{_name(number)}"
            )
        return found

    def unfinished(self) -> list[str]:
        """Return the files of compactions that are being put, or whose writer died. Raises OSError."""
        return self._store.unfinished(_COMPACTIONS)

    def sync(self) -> None:
        """Make all compactions durable.

        Raises:
            OSError: They may be lost when the machine goes down.
        """
        self._store.sync_names(_COMPACTIONS)

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
        return self.get(last_number(lambda number: self._store.is_there(_name(number))))

    def get(self, number: int) -> Compaction | None:
        """Return the compaction of this number, or None.

        Raises:
            BrokenChainError: It cannot be parsed.
        """
        text = self._store.get(_name(number))
        if text is None:
            return None
        try:
            return msgspec.json.decode(text, type=Compaction)
        except msgspec.MsgspecError as error:
            raise BrokenChainError(f"{self._store.place}/{_name(number)} is no compaction: {error}") from error


def _name(number: int) -> str:
    return f"{_COMPACTIONS}/{number:020d}.json"
