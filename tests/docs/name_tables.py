"""Tables of names on the pages docs/coming-from-*.md."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NAME = re.compile(r"`([^`]+)`")


def rows(text: str) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """Yield the names in backticks of each row in tables whose second column is "Sarameya".

    Yields:
        The other client's names, Sarameya's names, and the names in the column of differences.
    """
    for table in re.findall(r"^\| [^|]+ \| Sarameya \|.*\n\|-.*\n((?:\|.*\n)+)", text, re.MULTILINE):
        for line in table.splitlines():
            theirs, ours, differs = line.strip("|").split("|")
            yield _NAME.findall(theirs), _NAME.findall(ours), _NAME.findall(differs)
