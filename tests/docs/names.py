"""The tables of names on the pages for those who come from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NAME = re.compile(r"`([^`]+)`")


def rows(text: str) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """(their names, our names, names in what differs) of each row; the header of our column says so."""
    for table in re.findall(r"^\| [^|]+ \| Sarameya \|.*\n\|-.*\n((?:\|.*\n)+)", text, re.MULTILINE):
        for line in table.splitlines():
            theirs, ours, differs = line.strip("|").split("|")
            yield _NAME.findall(theirs), _NAME.findall(ours), _NAME.findall(differs)
