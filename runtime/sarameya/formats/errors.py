"""Error of bytes that cannot be decoded, before it is known which message they belong to."""

from __future__ import annotations

_MOST_TEXT = 200
"""Characters of a text that are kept. It may quote the message, whose content must not fill logs."""


class UndecodableError(Exception):
    """Bytes that are not of the expected format or type.

    Attributes:
        problem: The reason.
        path: Place in the value, such as `$.items[0].price`; empty for the value as a whole.
    """

    def __init__(self, problem: str, path: str = "") -> None:
        self.problem = _cut(problem)
        self.path = _cut(path)
        super().__init__(self.problem, self.path)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST_TEXT else f"{line[:_MOST_TEXT]}..."
