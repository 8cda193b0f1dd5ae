"""The schemas that a landed directory has had: numbered, each put only if there is none of its number.

    <root>/schemas/00000000000000000002.json      schema 2: the columns that rows have since; those before may lack some

The newest is the directory's. Of two that put the same number one wins, and the other one looks anew. What is in the
text is for others to know. Blocking; no Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs

from sarameya_handlers.landing.files import TEMPORARY, put_if_absent


@attrs.frozen(slots=True)
class Schema:
    """`number` counts from 1."""

    number: int
    text: str


class Schemas:
    """The schemas below a directory."""

    def __init__(self, root: Path) -> None:
        self._root = root / "schemas"

    def put(self, schema: Schema) -> bool:
        """Put it if there is none of its number, durably; False where there is one. Raises OSError, UnansweredError."""
        return put_if_absent(self.path(schema.number), schema.text.encode())

    def newest(self) -> Schema | None:
        """The one that counts; None where nothing has landed, or only before directories had schemas."""
        newest = None
        while (found := self._get(newest.number + 1 if newest else 1)) is not None:
            newest = found
        return newest

    def unfinished(self) -> Iterator[Path]:
        """Schemas that somebody was about to put, and is or died of it."""
        return self._root.glob(f"{TEMPORARY}*")

    def _get(self, number: int) -> Schema | None:
        try:
            return Schema(number, self.path(number).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def path(self, number: int) -> Path:
        """Where this one is kept."""
        return self._root / f"{number:020d}.json"
