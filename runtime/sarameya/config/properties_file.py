"""Java's `.properties` syntax, like java.util.Properties: text in, names and values out. Pure.

Lines end with LF, CR or both. Space, tab and form feed are blank. `#` and `!` start comments. A line that ends with an
odd number of backslashes continues on the next line. `=`, `:` or blanks end a name. If a name is given twice, the last
value wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_LAST_BACKSLASHES = re.compile(r"\\*\Z")
_PROPERTY = re.compile(r"(?P<name>(?:\\.|[^\\=: \t\f])*)[ \t\f]*(?:[=:][ \t\f]*)?(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<other>.))", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    r"""Return values by name.

    Raises:
        ValueError: A `\\u` has no four hexadecimal digits. The message names the line.
    """
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _PROPERTY.fullmatch(line)
        assert match is not None  # the pattern matches any text
        try:
            properties[_unescaped(match["name"])] = _unescaped(match["value"])
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return properties


def decode(content: bytes) -> str:
    """Decode a file: as UTF-8, or as Latin-1 if it is not valid UTF-8, as Java does since version 9 (JEP 226)."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line that is neither blank nor a comment: its number, and its text joined with its continuations."""
    lines = enumerate((line.lstrip(_BLANKS) for line in _LINE_END.split(text)), 1)
    for number, line in lines:
        if line.startswith(("#", "!")) or not line:
            continue
        pieces = [line]
        while _is_continued(pieces[-1]):
            pieces[-1] = pieces[-1][:-1]
            _, following = next(lines, (0, ""))
            pieces.append(following)
        yield number, "".join(pieces)


def _is_continued(line: str) -> bool:
    match = _LAST_BACKSLASHES.search(line)
    return match is not None and len(match[0]) % 2 == 1


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    # Characters outside Unicode's first plane are written as two codes: UTF-16 joins the two.
    return _ESCAPE.sub(_character, text).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _character(escape: re.Match[str]) -> str:
    if escape["code"]:
        return chr(int(escape["code"], 16))
    if escape["other"] == "u":
        raise ValueError(r"\u must be followed by four hexadecimal digits")
    return _ESCAPED.get(escape["other"], escape["other"])
