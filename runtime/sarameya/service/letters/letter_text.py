"""Letters as text for people and as JSON for programs: the output of `sarameya letters show`. Pure."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime

from sarameya.handling.letters import Letter
from sarameya.service.output.command_result import Document
from sarameya.service.output.text import NOTHING, printable

_SHOWN_CHARACTERS = 200
"""Characters of a key, a value or a header that are shown to people."""
_LAST_MILLISECOND = 253_402_300_799_999
"""The last one before the year 10000."""


def iso_time(timestamp: int | None) -> str:
    """Return a time in milliseconds since 1970 in ISO 8601, in UTC; a dash if there is none."""
    if timestamp is None or not 0 <= timestamp <= _LAST_MILLISECOND:
        return NOTHING
    return f"{datetime.fromtimestamp(timestamp // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def shortened(text: str, characters: int = _SHOWN_CHARACTERS) -> str:
    """Return the start of a text, and an ellipsis if it is longer."""
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def letter_text(letter: Letter, *, with_stack: bool = False) -> str:
    """Return the text of one letter.

    Args:
        letter: The letter.
        with_stack: Show the stack of the exception, too.
    """
    message = letter.message
    lines = [f"{message.topic}-{message.partition} offset {message.offset}, {iso_time(message.timestamp)}"]
    rows = [(printable(shortened(name)), printable(text)) for name, text in _rows(letter) if text]
    width = max(len(name) for name, _ in rows)
    lines += [f"  {name:{width}}  {text}" for name, text in rows]
    if with_stack and letter.stack:
        lines += ["  stack", *(f"    {printable(line)}" for line in letter.stack.splitlines())]
    return "\n".join(lines)


def _rows(letter: Letter) -> Iterator[tuple[str, str]]:
    yield "from", _origin(letter)
    yield "group", letter.group
    yield "error", ": ".join(filter(None, (letter.error_class, shortened(letter.error_message))))
    yield "attempts", str(letter.attempts or "")
    yield "redriven", str(letter.redriven or "")
    for name, text in letter.further:
        yield name, shortened(text)
    yield "key", _content(letter.message.key)
    yield "value", _content(letter.message.value)
    for name, value in letter.own_headers:
        yield f"header {name}", _content(value)


def _origin(letter: Letter) -> str:
    if not letter.topic:
        return "unknown"
    place = letter.topic
    if letter.partition is not None:
        place += f"-{letter.partition}"
    if letter.offset is not None:
        place += f" offset {letter.offset}"
    return f"{place}, {iso_time(letter.timestamp)}" if letter.timestamp is not None else place


def _content(content: bytes | None) -> str:
    """Return bytes as text: at most the first ones; in hexadecimal if they are no text."""
    if not content:
        return "null" if content is None else "(empty)"
    start = content[: 4 * _SHOWN_CHARACTERS]  # at least so many characters of UTF-8
    try:
        text = start.decode()
    except UnicodeDecodeError as error:
        if len(start) == len(content) or error.start < len(start) - 3:
            return f"{_size(content)}: {shortened(start.hex(' '))}"
        text = start[: error.start].decode()
    return text if len(text) <= _SHOWN_CHARACTERS else f"{shortened(text)} ({_size(content)})"


def _size(content: bytes) -> str:
    return f"{len(content)} bytes"


def letter_json(letter: Letter) -> str:
    """Return the letter as a line of JSON, with all of its content."""
    return json.dumps(letter_document(letter))


def letter_document(letter: Letter) -> Document:
    """Return the letter for programs. Content that is no UTF-8 has `_base64` at its name."""
    message = letter.message
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "origin": {
            "topic": letter.topic or None,
            "partition": letter.partition,
            "offset": letter.offset,
            "timestamp": letter.timestamp,
        },
        "group": letter.group or None,
        "attempts": letter.attempts,
        "redriven": letter.redriven,
        "error_class": letter.error_class or None,
        "error_message": letter.error_message or None,
        "stack": letter.stack or None,
        "further": dict(letter.further),
        **_field("key", message.key),
        **_field("value", message.value),
        "headers": [{"name": name, **_field("value", value)} for name, value in letter.own_headers],
    }


def _field(name: str, content: bytes | None) -> Document:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(content).decode()}
