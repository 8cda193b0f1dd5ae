"""The syntax of `.properties` files, compared with the result of java.util.Properties for the same file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya.config.properties_file import decode, parse_properties

GOLDEN = Path(__file__).parent / "golden"


def by_java() -> dict[str, str]:
    lines = (GOLDEN / "hostile.txt").read_text(encoding="ascii").splitlines()
    pairs = (line.split("\t") for line in lines)
    return {bytes.fromhex(name).decode(): bytes.fromhex(value).decode() for name, value in pairs}


def test_file_is_parsed_like_by_java() -> None:
    assert len(by_java()) > 40
    assert parse_properties(decode((GOLDEN / "hostile.properties").read_bytes())) == by_java()


@pytest.mark.parametrize("text", ["a=\\u12g4", "a=\\u12", "a=\\u", "\\u=1"])
def test_incomplete_escape_is_refused_with_its_line_number(text: str) -> None:
    with pytest.raises(ValueError, match=r"^line 3: \\u must be followed by four hexadecimal digits$"):
        parse_properties(f"# one\nb=\\u0041\n{text}")


@pytest.mark.parametrize("text", ["", "\n", "\\", "a\\", "=", "#", "\\\n\\\n\\", "a=\\\n", "\r\r\n"])
def test_nearly_empty_text_is_accepted(text: str) -> None:
    assert set(parse_properties(text).values()) <= {""}


@given(st.text(alphabet="ab=:# \t\\\n\r\u00e4\u2028", max_size=30))
def test_any_text_without_escapes_is_accepted(text: str) -> None:
    parse_properties(text)


@given(st.dictionaries(st.text(), st.text()))
def test_text_with_java_escapes_is_unescaped(properties: dict[str, str]) -> None:
    def stored(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))

    assert parse_properties("\n".join(f"{stored(n)}={stored(v)}" for n, v in properties.items())) == properties


def test_bytes_that_are_not_utf_8_are_read_as_latin_1() -> None:
    assert decode("größe".encode()) == decode("größe".encode("latin-1")) == "größe"
