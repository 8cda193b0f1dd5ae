"""Client of a schema registry: schemas by id, or by subject and version, requested once and cached. Blocking.

Several threads may call at once. If two need the same schema at the same time, it is requested twice.

A look-up of an id has one of three results: the schema; an unknown id, so that the record with this id cannot be
decoded; or an error of the registry, which says nothing about the record. An unknown id is requested a second time
after a pause: a producer may have just registered the schema with another node of the registry.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from sarameya.errors import RegistryError, RegistryRefusedError, UnknownSubjectError
from sarameya.registry.http import Answer, Http
from sarameya.registry.options import RegistryOptions
from sarameya.registry.schemas import Schema, error_code

LATEST = "latest"

TRIES = 3
"""Attempts at a request before the error is raised. The caller then waits longer, and retries."""
PAUSE = 0.5
"""Seconds between two attempts."""
LOOK_AGAIN_AFTER = 3.0
"""Seconds after which an unknown id is requested once more, to confirm that it is unknown."""
FORGOTTEN_AFTER = 60.0
"""Seconds after which an unknown id is requested again."""
MOST_UNKNOWN = 1_000
"""Maximum number of unknown ids in one look-up. After that no more ids are requested.

A batch with more bad records never lands in part (`spark.poison.poison_search.Tolerance`), so no record becomes a dead
letter for an id that was not requested.
"""
MOST_REMEMBERED = 10 * MOST_UNKNOWN
"""Maximum number of unknown ids in the cache. The oldest are dropped first."""
_SUBJECT_NOT_FOUND, _VERSION_NOT_FOUND, _SCHEMA_NOT_FOUND = 40401, 40402, 40403


def check_cancelled() -> None:
    """Raise `trio.Cancelled` if the call of this worker thread was cancelled. Do nothing outside of trio's threads."""
    import trio

    try:
        trio.from_thread.check_cancelled()
    except RuntimeError:
        return  # not one of trio's threads


class Registry:
    """A schema registry. `check` is called during waits, and raises once the caller is cancelled."""

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

        The result lacks unknown ids (see `is_unknown`), and ids that were not requested: a look-up ends at
        `MOST_UNKNOWN` unknown ids. It makes one request for each new schema, and two for each unknown id.

        Raises:
            RegistryError: The registry did not respond, or its response is not a schema.
        """
        wanted = sorted(set(ids))
        self._forget_old()
        room = MOST_UNKNOWN - sum(number in self._unknown for number in wanted)
        left = [number for number in wanted if number not in self._schemas and number not in self._unknown]
        if left := self._still_unknown(left, room):
            self._wait(LOOK_AGAIN_AFTER)
            left = self._still_unknown(left, room)
            self._remember_unknown(left)
        return {number: self._schemas[number] for number in wanted if number in self._schemas}

    def is_unknown(self, number: int) -> bool:
        """Return whether the last look-up of this id found no schema. Makes no request."""
        return number in self._unknown

    def version(self, subject: str, version: int | str = LATEST) -> Schema:
        """Return a version of a subject. A numbered version is cached; the latest is requested each time.

        Raises:
            UnknownSubjectError: The registry has no such subject, or no such version of it.
            RegistryError: The registry did not respond, or its response is not a schema.
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
        """Return all schemas that this one refers to, directly or indirectly, by their names in the references.

        Each schema comes after the schemas that it refers to.

        Raises:
            RegistryError: The registry did not respond, or its response is not a schema.
        """
        found: dict[str, Schema] = {}
        for reference in schema.references:
            other = self.version(reference.subject, reference.version)
            if reference.name not in found:
                found |= self.referred(other) | {reference.name: other}
        return found

    def _still_unknown(self, ids: list[int], most: int) -> list[int]:
        """Return the ids that the registry does not know, at most `most`; cache the schemas of the others."""
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
            self._unknown.pop(number, None)  # another thread may have dropped it

    def _get(self, path: str) -> tuple[str, Answer]:
        """Return the first response below status 500, except 429. A proxy or a failing node sends others: retry them.

        Raises:
            RegistryError: `TRIES` attempts at each URL brought no such response.
        """
        problem = ""
        for attempt in range(TRIES):
            if attempt:
                self._wait(PAUSE * 2 ** (attempt - 1))
            for base in self._urls:
                self._check()
                try:
                    answer = self._get_url(base + path)
                except RegistryError as error:
                    problem = str(error)
                    continue
                if answer.status < 500 and answer.status != 429:
                    return base + path, answer
                problem = f"{base}{path} answers with status {answer.status}{_error_text(answer)}"
        raise RegistryError(problem)

    def _schema(self, url: str, answer: Answer, number: int | None = None) -> Schema:
        if answer.status in (401, 403):
            raise RegistryRefusedError(
                f"{url} refuses the request (status {answer.status}): check username, password or token"
            )
        if answer.status != 200:
            raise RegistryError(
                f"{url} answers with status {answer.status}{_error_text(answer)}: is this the registry's base URL?"
            )
        try:
            return Schema.from_json(answer.body, number)
        except ValueError as error:
            raise RegistryError(f"{url} answers with no schema ({error}): is it a schema registry?") from error

    def _wait(self, seconds: float) -> None:
        """Wait in short steps, so that a cancellation takes effect soon."""
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


def _error_text(answer: Answer) -> str:
    """Return the text of an error response on one line, if it is printable."""
    text: Any = answer.body[:200].decode(errors="replace")
    line = " ".join(text.split())
    return f": {line}" if line and line.isprintable() else ""
