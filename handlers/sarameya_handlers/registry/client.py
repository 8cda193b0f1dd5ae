"""Schemas by their ids, and by subject and version, asked for once and remembered. Blocking.

Several threads may ask at once: what two of them ask at the same time is asked twice, and both are answered the same.

An answer is one of three: the schema; that there is none of this id, so that the record which carries it is bad; or an
error, which is nobody's fault but the registry's. The second is believed only after a while: a producer may have
registered the schema a moment ago, with another node of the registry than the one that is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from sarameya_handlers.registry.errors import RegistryError, UnknownSubjectError
from sarameya_handlers.registry.http import Answer, Http
from sarameya_handlers.registry.options import RegistryOptions
from sarameya_handlers.registry.schemas import Schema, error_code

LATEST = "latest"

TRIES = 3
"""How often a registry that does not answer is asked before that is told; whoever asks waits longer, and asks again."""
PAUSE = 0.5
"""Seconds between two tries."""
LOOK_AGAIN_AFTER = 3.0
"""Seconds after which an id that is unknown is asked for once more, before it is believed to be."""
FORGOTTEN_AFTER = 60.0
"""Seconds after which an id that was unknown is asked for again."""
MOST_UNKNOWN = 1_000
"""Ids of one look-up that a registry may not know before no more of its ids are asked for. No batch of which more
records are bad lands in part (`poison.finding.Tolerance`): none is a dead letter for an id that was not asked for."""
MOST_REMEMBERED = 10 * MOST_UNKNOWN
"""Unknown ids that are remembered at most; the oldest are forgotten first."""
_SUBJECT_NOT_FOUND, _VERSION_NOT_FOUND, _SCHEMA_NOT_FOUND = 40401, 40402, 40403


def check_cancelled() -> None:
    """Raise what a cancellation is, in a worker thread of trio's; nothing elsewhere."""
    import trio

    try:
        trio.from_thread.check_cancelled()
    except RuntimeError:
        return  # not one of trio's threads: nobody can cancel it


class Registry:
    """One registry. `check` is called while it is waited for, and raises when nobody waits any more."""

    def __init__(
        self,
        options: RegistryOptions,
        *,
        check: Callable[[], None] = check_cancelled,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        get: Callable[[str], Answer] | None = None,
    ) -> None:
        self._urls = tuple(url.rstrip("/") for url in options.url)
        self._get_url = get or Http(options, check).get
        self._check = check
        self._sleep = sleep
        self._clock = clock
        self._schemas: dict[int, Schema] = {}
        self._versions: dict[tuple[str, int], Schema] = {}
        self._unknown: dict[int, float] = {}

    def __repr__(self) -> str:
        return f"Registry({', '.join(self._urls)})"

    def schemas(self, ids: Iterable[int]) -> dict[int, Schema]:
        """Return the schemas of these ids.

        Ids that the registry does not know, and after a while still does not, are left out. So are ids that were not
        asked for: at `MOST_UNKNOWN` unknown ones of a look-up the search ends (see `is_unknown`). A look-up is so many
        requests for unknown ids at most, twice that where it finds fewer, and one for each schema that is new.

        Raises:
            RegistryError: The registry cannot be asked, or its answer is none.
        """
        wanted = sorted(set(ids))
        self._forget_old()
        room = MOST_UNKNOWN - sum(number in self._unknown for number in wanted)
        left = [number for number in wanted if number not in self._schemas and number not in self._unknown]
        if left := self._still_unknown(left, room):
            if len(left) < room:
                self._wait(LOOK_AGAIN_AFTER)
                left = self._still_unknown(left, room)
            self._remember_unknown(left)
        return {number: self._schemas[number] for number in wanted if number in self._schemas}

    def is_unknown(self, number: int) -> bool:
        """Return whether the registry has said that it has no such schema. No request is made."""
        return number in self._unknown

    def version(self, subject: str, version: int | str = LATEST) -> Schema:
        """A version of a subject: a number's never changes and is remembered, the latest is asked for each time.

        Raises UnknownSubjectError, RegistryError.
        """
        if isinstance(version, int) and (subject, version) in self._versions:
            return self._versions[subject, version]
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        url, answer = self._get(path)
        if answer.status == 404 and error_code(answer.body) in (_SUBJECT_NOT_FOUND, _VERSION_NOT_FOUND):
            raise UnknownSubjectError(f"{url}: there is no version {version} of subject {subject!r}")
        schema = self._schema(url, answer)
        self._schemas.setdefault(schema.id, schema)
        if isinstance(version, int):
            self._versions[subject, version] = schema
        return schema

    def referred(self, schema: Schema) -> dict[str, Schema]:
        """All schemas that this one refers to, and those that they refer to, by the names that they are called; what
        others need comes before them. Raises RegistryError.
        """
        found: dict[str, Schema] = {}
        for reference in schema.references:
            other = self.version(reference.subject, reference.version)
            if reference.name not in found:
                found |= self.referred(other) | {reference.name: other}
        return found

    def _still_unknown(self, ids: list[int], most: int) -> list[int]:
        """Return those that the registry does not know, `most` at most; schemas of the others are remembered."""
        unknown: list[int] = []
        for number in ids:
            if len(unknown) >= most:
                break
            url, answer = self._get(f"/schemas/ids/{number}")
            if answer.status == 404 and error_code(answer.body) == _SCHEMA_NOT_FOUND:
                unknown.append(number)
            else:
                self._schemas[number] = self._schema(url, answer, number)
        return unknown

    def _remember_unknown(self, ids: list[int]) -> None:
        self._unknown.update(dict.fromkeys(ids, self._clock()))
        for number in list(self._unknown)[: max(0, len(self._unknown) - MOST_REMEMBERED)]:
            self._unknown.pop(number, None)  # another thread may have forgotten it

    def _get(self, path: str) -> tuple[str, Answer]:
        """The first answer that is the registry's own: one that a proxy, or a node in trouble, gives in its place does
        not count. Raises RegistryError."""
        problem = ""
        for turn in range(TRIES):
            if turn:
                self._wait(PAUSE * 2 ** (turn - 1))
            for base in self._urls:
                self._check()
                try:
                    answer = self._get_url(base + path)
                except RegistryError as error:
                    problem = str(error)
                    continue
                if answer.status < 500 and answer.status != 429:
                    return base + path, answer
                problem = f"{base}{path} answers with status {answer.status}{_said(answer)}"
        raise RegistryError(problem)

    def _schema(self, url: str, answer: Answer, number: int | None = None) -> Schema:
        if answer.status in (401, 403):
            raise RegistryError(f"{url} refuses us (status {answer.status}): check username, password or token")
        if answer.status != 200:
            raise RegistryError(
                f"{url} answers with status {answer.status}{_said(answer)}: is this where the registry's paths begin?"
            )
        try:
            return Schema.from_json(answer.body, number)
        except ValueError as error:
            raise RegistryError(f"{url} answers with what is no schema ({error}): is it a schema registry?") from error

    def _wait(self, seconds: float) -> None:
        """Wait in pieces: a cancellation must not have to wait, too."""
        until = self._clock() + seconds
        while (left := until - self._clock()) > 0:
            self._check()
            self._sleep(min(left, PAUSE))
        self._check()

    def _forget_old(self) -> None:
        now = self._clock()
        self._unknown = {
            number: since for number, since in self._unknown.copy().items() if now - since < FORGOTTEN_AFTER
        }


def _said(answer: Answer) -> str:
    """What an error says, on one line, if that can be shown."""
    text: Any = answer.body[:200].decode(errors="replace")
    line = " ".join(text.split())
    return f": {line}" if line and line.isprintable() else ""
