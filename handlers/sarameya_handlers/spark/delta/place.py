"""Location of a Delta table: a path or a name in a catalog, and the directory that this process can see of it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Self
from urllib.parse import quote

import attrs

from sarameya import ConfigError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_PART = re.compile(r"[^\W\d]\w*|`[^`]+`")
HIDDEN = "_sarameya"
"""Directory for our own files. Delta, VACUUM included, ignores names that start with an underscore."""


@attrs.frozen(slots=True)
class Place:
    """A table's location.

    Attributes:
        location: URL of a table that is named by its path; else empty.
        table: Quoted name of a catalog's table; else empty.
    """

    location: str = ""
    table: str = ""

    @classmethod
    def of(cls, text: object) -> Self:
        """Parse a table's name or path. A path without a scheme is a local one.

        Raises:
            ConfigError: The text is neither a path nor a name.
        """
        if isinstance(text, os.PathLike):
            text = os.fspath(text)
        if not isinstance(text, str) or not text:
            raise ConfigError("table", text, "must be a path, or a name in a catalog")
        if text.startswith("file:"):
            return cls.of(_path(text))
        if _URL.match(text):
            return cls(location=text.rstrip("/"))
        if "/" in text or text.startswith("."):
            if set(text) & set("*?[]{}\\"):
                raise ConfigError("table", text, "must have none of * ? [ ] { } \\, which Spark reads as patterns")
            return cls(location=f"file://{Path(text).absolute()}")
        parts = re.findall(r"`[^`]*`|[^.`]+", text)
        if ".".join(parts) != text or not all(_PART.fullmatch(part) for part in parts):
            raise ConfigError("table", text, "is neither a path (with a /) nor a name in a catalog")
        return cls(table=".".join(part if part.startswith("`") else f"`{part}`" for part in parts))

    def __str__(self) -> str:
        return (self.location.removeprefix("file://") or self.table).replace("`", "")

    @property
    def sql(self) -> str:
        """The table's name in SQL."""
        return self.table or f"delta.`{self.location.replace('`', '``')}`"

    @property
    def file_name(self) -> str:
        """The table's name, as the name of a directory."""
        return quote(str(self), safe="").lstrip(".")


def local_root(location: str) -> Path | None:
    """Return the directory of a `file:` location; None for any other."""
    return Path(_path(location)) if location.startswith("file:") else None


def _path(location: str) -> str:
    """Return the path of a `file:` location, unchanged: Hadoop does not decode percent-escapes in it."""
    return location.removeprefix("file:").removeprefix("//")


def hidden(root: Path) -> Path:
    """Return the directory below a table's root for Sarameya's own files."""
    return root / HIDDEN
