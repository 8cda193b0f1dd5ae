"""The syntax of `.properties` files, held against what java.util.Properties has made of the same file."""

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


def test_file_means_what_java_takes_it_for() -> None:
    assert len(by_java()) > 40
    assert parse_properties(decode((GOLDEN / "hostile.properties").read_bytes())) == by_java()


@pytest.mark.parametrize("text", ["a=\\u12g4", "a=\\u12", "a=\\u", "\\u=1"])
def test_code_without_its_digits_is_told_by_its_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"^line 3: \\u must be followed by four hexadecimal digits$"):
        parse_properties(f"# one\nb=\\u0041\n{text}")


@pytest.mark.parametrize("text", ["", "\n", "\\", "a\\", "=", "#", "\\\n\\\n\\", "a=\\\n", "\r\r\n"])
def test_text_that_hardly_says_anything_is_taken(text: str) -> None:
    assert set(parse_properties(text).values()) <= {""}


@given(st.text(alphabet="ab=:# \t\\\n\r\u00e4\u2028", max_size=30))
def test_any_text_without_codes_is_taken(text: str) -> None:
    parse_properties(text)


@given(st.dictionaries(st.text(), st.text()))
def test_what_is_escaped_as_java_stores_it_comes_back(properties: dict[str, str]) -> None:
    def stored(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))

    assert parse_properties("\n".join(f"{stored(n)}={stored(v)}" for n, v in properties.items())) == properties


def test_bytes_that_are_no_utf_8_are_latin_1() -> None:
    assert decode("größe".encode()) == decode("größe".encode("latin-1")) == "größe"
