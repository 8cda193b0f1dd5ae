"""Client of a schema registry: schemas by id, or by subject and version, requested once and cached. Blocking.

Several threads may call at once. If two need the same schema at the same time, it is requested twice.

A look-up of an id has one of three results: the schema; an unknown id, so that the record with this id cannot be
decoded; or an error of the registry, which says nothing about the record. An unknown id is requested a second time
after a pause: a producer may have just registered the schema with another node of the registry.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from sarameya.errors import RegistryError, RegistryRefusedError, SchemaError, UnknownSubjectError
from sarameya.registry.options import RegistryOptions
from sarameya.registry.schemas import Schema, SchemaKind, error_code

if TYPE_CHECKING:
    from sarameya.registry.http import Answer

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


class _Registered(msgspec.Struct):
    id: int


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
        request: Callable[[str, bytes | None], Answer] | None = None,
    ) -> None:
        self._urls = tuple(url.rstrip("/") for url in options.url)
        self._send = request or _http(options, check)
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
        url, answer = self._request(path)
        if answer.status == 404 and error_code(answer.body) in (_SUBJECT_NOT_FOUND, _VERSION_NOT_FOUND):
            problem = f"there is no version {version} of subject {subject!r}; register it, or correct the name"
            raise UnknownSubjectError(f"{url}: {problem}")
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

    def registered(self, subject: str, kind: str, text: str, *, register: bool = False) -> Schema:
        """Return the schema with this text of a subject.

        Args:
            subject: The subject.
            kind: The schema's language, one of `SchemaKind`.
            text: The schema. It refers to no others.
            register: Register it for the subject, if it is not registered.

        Raises:
            UnknownSubjectError: It is not registered, and `register` is False.
            SchemaError: The registry does not accept it: it is invalid, or not compatible with the last version.
            RegistryError: The registry did not respond, or its response has no id.
        """
        # Older registries have only Avro, and do not know the field.
        typed = {} if kind == SchemaKind.AVRO else {"schemaType": str(kind)}
        body = msgspec.json.encode({"schema": text, **typed})
        url, answer = self._request(f"/subjects/{quote(subject, safe='')}{'/versions' if register else ''}", body)
        if answer.status == 404 and error_code(answer.body) in (_SUBJECT_NOT_FOUND, _SCHEMA_NOT_FOUND):
            problem = f"the schema is not registered for subject {subject!r}; register it, or set register=True"
            raise UnknownSubjectError(f"{url}: {problem}")
        if answer.status in (409, 422):
            raise SchemaError(f"{url} does not accept the schema (status {answer.status}{_error_text(answer)})")
        _check_status(url, answer)
        try:
            number = msgspec.json.decode(answer.body, type=_Registered).id
        except msgspec.MsgspecError as error:
            raise RegistryError(f"{url} answers with no schema id ({error}): is it a schema registry?") from error
        return Schema(number, kind, text)

    def _still_unknown(self, ids: list[int], most: int) -> list[int]:
        """Return the ids that the registry does not know, at most `most`; cache the schemas of the others."""
        unknown: list[int] = []
        for number in ids:
            if len(unknown) >= most:
                break
            url, answer = self._request(f"/schemas/ids/{number}")
            if answer.status == 404 and error_code(answer.body) == _SCHEMA_NOT_FOUND:
                unknown.append(number)
            else:
                self._schemas[number] = self._schema(url, answer, number)
        return unknown

    def _remember_unknown(self, ids: list[int]) -> None:
        self._unknown.update(dict.fromkeys(ids, self._clock()))
        for number in list(self._unknown)[: max(0, len(self._unknown) - MOST_REMEMBERED)]:
            self._unknown.pop(number, None)  # another thread may have dropped it

    def _request(self, path: str, body: bytes | None = None) -> tuple[str, Answer]:
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
                    answer = self._send(base + path, body)
                except RegistryError as error:
                    problem = str(error)
                    continue
                if answer.status < 500 and answer.status != 429:
                    return base + path, answer
                problem = f"{base}{path} answers with status {answer.status}{_error_text(answer)}"
        raise RegistryError(problem)

    def _schema(self, url: str, answer: Answer, number: int | None = None) -> Schema:
        _check_status(url, answer)
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


def _check_status(url: str, answer: Answer) -> None:
    if answer.status in (401, 403):
        raise RegistryRefusedError(
            f"{url} refuses the request (status {answer.status}): check username, password or token"
        )
    if answer.status != 200:
        raise RegistryError(
            f"{url} answers with status {answer.status}{_error_text(answer)}: is this the registry's base URL?"
        )


def _http(options: RegistryOptions, check: Callable[[], None]) -> Callable[[str, bytes | None], Answer]:
    # Imported when it is used: it imports most of the standard library's network modules.
    from sarameya.registry.http import Http

    return Http(options, check).request


def _error_text(answer: Answer) -> str:
    """Return the text of an error response on one line, if it is printable."""
    text: Any = answer.body[:200].decode(errors="replace")
    line = " ".join(text.split())
    return f": {line}" if line and line.isprintable() else ""
