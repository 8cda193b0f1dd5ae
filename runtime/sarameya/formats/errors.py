"""Errors of one key or value, before it is known which message it belongs to."""

from __future__ import annotations

from sarameya.errors import RegistryError

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


class NotEncodableError(Exception):
    """An object that does not have the format. The text is the reason."""

    def __init__(self, problem: str) -> None:
        super().__init__(_cut(problem))


class NoSchemaError(Exception):
    """A record that cannot be decoded now: the registry has not returned its schema. The record is not at fault.

    Attributes:
        error: The registry's error.
    """

    def __init__(self, error: RegistryError) -> None:
        self.error = error
        super().__init__(error)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST_TEXT else f"{line[:_MOST_TEXT]}..."
