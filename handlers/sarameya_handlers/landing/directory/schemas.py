"""Schemas of a landed directory: numbered, each put only if none of its number exists.

    _sarameya/schemas/00000000000000000002.json   schema 2: the columns of rows written since; older rows may lack some

The newest one is the directory's schema. Of two processes that put the same number one wins, and the other reads again.
The text is opaque here. Blocking; no Spark.
"""

from __future__ import annotations

import attrs

from sarameya_handlers.landing.directory.manifests import HIDDEN
from sarameya_handlers.landing.stores.store import Store

_SCHEMAS = f"{HIDDEN}/schemas"


@attrs.frozen(slots=True)
class StoredSchema:
    """Numbered schema, as text. Numbers count from 1."""

    number: int
    text: str


class Schemas:
    """Schemas of a landed directory."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, schema: StoredSchema) -> bool:
        """Put a schema durably, if none of its number exists.

        Returns:
            False if one exists, whoever put it.

        Raises:
            UnansweredError: The outcome is unknown.
            OSError: The schema was not put, and will not be.
        """
        return self._store.put_if_absent(_name(schema.number), schema.text.encode())

    def newest(self) -> StoredSchema | None:
        """Return the newest schema; None if nothing has landed, or only before schemas were stored."""
        newest = None
        while (found := self._get(newest.number + 1 if newest else 1)) is not None:
            newest = found
        return newest

    def unfinished(self) -> list[str]:
        """Return the files of schemas that are being put, or whose writer died. Raises OSError."""
        return self._store.unfinished(_SCHEMAS)

    def place(self, number: int) -> str:
        """Return the place of a schema, for messages."""
        return f"{self._store.place}/{_name(number)}"

    def _get(self, number: int) -> StoredSchema | None:
        text = self._store.get(_name(number))
        return None if text is None else StoredSchema(number, text.decode())


def _name(number: int) -> str:
    return f"{_SCHEMAS}/{number:020d}.json"
