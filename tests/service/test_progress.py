from __future__ import annotations

import io
import sys

import pytest

from sarameya.service.progress import display


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_elsewhere_than_on_a_terminal_a_line_comes_every_two_seconds() -> None:
    stream, clock = io.StringIO(), Clock()
    with display("landing", 1000, stream=stream, clock=clock) as shown:
        for second in range(6):
            clock.now = second
            shown.update(second * 100, f"{second} s")
        shown.say("aside")
    assert stream.getvalue().splitlines() == [
        "landing: 0 of 1,000 (0%), 0 s",
        "landing: 200 of 1,000 (20%), 2 s",
        "landing: 400 of 1,000 (40%), 4 s",
        "aside",
    ]


def test_the_end_has_its_line_whenever_it_comes_and_once() -> None:
    stream, clock = io.StringIO(), Clock()
    with display("landing", 10, stream=stream, clock=clock) as shown:
        shown.update(1)
        shown.update(10)
        shown.update(10)
    assert stream.getvalue().splitlines() == ["landing: 1 of 10 (10%)", "landing: 10 of 10 (100%)"]


def test_terminal_gets_a_bar_with_the_numbers() -> None:
    stream = Terminal()
    with display("landing", 10, stream=stream, clock=Clock()) as shown:
        shown.update(5, "5 rows/s")
        shown.say("aside [not markup]")
    text = stream.getvalue()
    assert "━" in text
    assert "5/10" in text
    assert "5 rows/s" in text
    assert "aside [not markup]" in text


def test_terminal_without_rich_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with display("landing", 10, stream=stream, clock=Clock()) as shown:
        shown.update(5)
    assert stream.getvalue() == "landing: 5 of 10 (50%)\n"


def test_quiet_shows_nothing() -> None:
    stream = Terminal()
    with display("landing", 10, quiet=True, stream=stream, clock=Clock()) as shown:
        shown.update(5)
        shown.say("aside")
    assert stream.getvalue() == ""
