"""Where a Delta table is: a path or a name in a catalog; and what of it is a directory that this process sees, too."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Self
from urllib.parse import quote

import attrs

from sarameya import ConfigError

_PART = re.compile(r"[^\W\d]\w*|`[^`]+`")
_HIDDEN = "_sarameya"
"""Delta leaves alone what begins with an underscore; VACUUM, too."""


@attrs.frozen(slots=True)
class Place:
    """A table's place: `location` for one that is named by its path, `table` for a catalog's."""

    location: str = ""
    table: str = ""

    @classmethod
    def of(cls, text: object) -> Self:
        """Raises ConfigError. A path without a scheme is a local one."""
        if isinstance(text, os.PathLike):
            text = os.fspath(text)
        if not isinstance(text, str) or not text:
            raise ConfigError("table", text, "must be a path, or a name in a catalog")
        if text.startswith("file:"):
            return cls.of(_path(text))
        if "://" in text:
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
        """In SQL."""
        return self.table or f"delta.`{self.location.replace('`', '``')}`"

    @property
    def file_name(self) -> str:
        """For a directory of this table's own."""
        return quote(str(self), safe="").lstrip(".")


def local_root(location: str) -> Path | None:
    """The directory of a `file:` location; None for any other."""
    return Path(_path(location)) if location.startswith("file:") else None


def _path(location: str) -> str:
    """Of a `file:` location. Hadoop knows no percent-escapes in it."""
    return location.removeprefix("file:").removeprefix("//")


def hidden(root: Path) -> Path:
    """The directory below a table's root in which Sarameya keeps what is no table's."""
    return root / _HIDDEN
