"""Schemas of a landed directory: numbered, each put only if none of its number exists.

    <root>/schemas/00000000000000000002.json      schema 2: the columns of rows written since; older rows may lack some

The newest one is the directory's schema. Of two processes that put the same number one wins, and the other reads again.
The text is opaque here. Blocking; no Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs

from sarameya_handlers.landing.files import put_if_absent, temporary_files


@attrs.frozen(slots=True)
class StoredSchema:
    """Numbered schema, as text. Numbers count from 1."""

    number: int
    text: str


class Schemas:
    """Schemas below a directory."""

    def __init__(self, root: Path) -> None:
        self._root = root / "schemas"

    def put(self, schema: StoredSchema) -> bool:
        """Put a schema durably, if none of its number exists.

        Returns:
            False if one exists, whoever put it.

        Raises:
            UnansweredError: The outcome is unknown.
            OSError: The schema was not put, and will not be.
        """
        return put_if_absent(self.path(schema.number), schema.text.encode())

    def newest(self) -> StoredSchema | None:
        """Return the newest schema; None if nothing has landed, or only before schemas were stored."""
        newest = None
        while (found := self._get(newest.number + 1 if newest else 1)) is not None:
            newest = found
        return newest

    def unfinished(self) -> Sequence[Path]:
        """Return temporary files of schemas that are being put, or whose writer died. Raises OSError."""
        return temporary_files(self._root)

    def _get(self, number: int) -> StoredSchema | None:
        try:
            return StoredSchema(number, self.path(number).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def path(self, number: int) -> Path:
        """Return the path of a schema."""
        return self._root / f"{number:020d}.json"
