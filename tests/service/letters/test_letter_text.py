"""Letters as text and as JSON."""

from __future__ import annotations

import json

import pytest

from sarameya.handling.letters import ERRORS
from sarameya.service.letters.letter_text import iso_time, letter_json, letter_text
from tests.service.letters.kit import failure_headers, letter


def test_letter_is_shown_with_its_origin_and_its_error() -> None:
    headers = failure_headers(own=(("trace", b"7"), ("empty", b""), ("none", None)), redriven=1)
    found = letter((*headers, (f"{ERRORS}sink", b"lake")), offset=5)
    assert letter_text(found).splitlines() == [
        "orders.billing.dead-0 offset 5, 2026-09-21T14:14:20Z",
        "  from          orders-0 offset 17, 2026-09-21T14:13:20Z",
        "  group         billing",
        "  error         builtins.ValueError: bad value",
        "  attempts      3",
        "  redriven      1",
        "  sink          lake",
        "  key           k",
        "  value         value",
        "  header trace  7",
        "  header empty  (empty)",
        "  header none   null",
    ]
    assert letter_text(found, with_stack=True).splitlines()[-3:] == [
        "  stack",
        "    Traceback ...",
        "    ValueError: bad value",
    ]


def test_letter_without_failure_headers_is_shown() -> None:
    assert letter_text(letter((("own", b"x"),), key=None)).splitlines() == [
        "orders.billing.dead-0 offset 0, 2026-09-21T14:14:20Z",
        "  from        unknown",
        "  key         null",
        "  value       value",
        "  header own  x",
    ]


def test_names_of_headers_cannot_control_a_terminal() -> None:
    headers = failure_headers(own=(("\x1b[2J\n  from", b"x"), ("n" * 5000, b"y")))
    text = letter_text(letter((*headers, (f"{ERRORS}\x1b[2J", b"z"))))
    assert "\x1b" not in text
    assert "  header \\x1b[2J\\n  from  " in text
    assert max(map(len, text.splitlines())) < 300


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"x" * 200, "x" * 200),
        (b"x" * 201, "x" * 199 + "… (201 bytes)"),
        ("é".encode() * 5000, "é" * 199 + "… (10000 bytes)"),
        ("€".encode() * 5000, "€" * 199 + "… (15000 bytes)"),
        (b"\x00\xff\x00", "3 bytes: 00 ff 00"),
        (b"\xff" * 1000, "1000 bytes: " + ("ff " * 67)[:199] + "…"),
        (b"\xe2\x82", "2 bytes: e2 82"),
        (b"a\x1b[2Jb", "a\\x1b[2Jb"),
    ],
)
def test_value_is_shortened_and_cannot_control_the_terminal(value: bytes, text: str) -> None:
    assert f"  value     {text}" in letter_text(letter(value=value)).splitlines()


def test_json_has_the_whole_content() -> None:
    headers = failure_headers(own=(("trace", b"\xff"),), redriven=2)
    found = json.loads(letter_json(letter(headers, key=None, value=b"\xff" * 1000)))
    assert found.pop("value_base64").startswith("////")
    assert found == {
        "topic": "orders.billing.dead",
        "partition": 0,
        "offset": 0,
        "timestamp": 1_790_000_060_000,
        "origin": {"topic": "orders", "partition": 0, "offset": 17, "timestamp": 1_790_000_000_000},
        "group": "billing",
        "attempts": 3,
        "redriven": 2,
        "error_class": "builtins.ValueError",
        "error_message": "bad value",
        "stack": "Traceback ...\nValueError: bad value",
        "further": {},
        "key": None,
        "headers": [{"name": "trace", "value_base64": "/w=="}],
    }


@pytest.mark.parametrize(("time", "text"), [(None, "-"), (-1, "-"), (0, "1970-01-01T00:00:00Z"), (2**62, "-")])
def test_invalid_time_is_shown_as_a_dash(time: int | None, text: str) -> None:
    assert iso_time(time) == text
