from __future__ import annotations

import io
import json
import logging
import sys

import pytest

from sarameya.service.output.log_format import JsonFormatter
from sarameya.service.output.progress_display import Steps, display, steps


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_progress_without_a_terminal_is_a_line_every_two_seconds() -> None:
    stream, clock = io.StringIO(), Clock()
    with display("landing", 1000, stream=stream, clock=clock) as shown:
        for second in range(6):
            clock.now = second
            shown.update(second * 100, f"{second} s")
        shown.print_line("aside")
    assert stream.getvalue().splitlines() == [
        "landing: 0 of 1,000 (0%), 0 s",
        "landing: 200 of 1,000 (20%), 2 s",
        "landing: 400 of 1,000 (40%), 4 s",
        "aside",
    ]


def test_last_update_has_exactly_one_line() -> None:
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
        shown.print_line("aside [not markup]")
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
        shown.print_line("aside")
    assert stream.getvalue() == ""


def test_unknown_total_shows_the_last_count() -> None:
    stream, clock = io.StringIO(), Clock()
    with display("landed", None, stream=stream, clock=clock) as shown:
        for second in range(4):
            clock.now = second
            shown.update(second * 1000, "3 to go")
    assert stream.getvalue().splitlines() == [
        "landed: 0, 3 to go",
        "landed: 2,000, 3 to go",
        "landed: 3,000, 3 to go",
    ]


def test_unknown_total_has_a_bar_without_an_end() -> None:
    stream = Terminal()
    with display("landed", None, stream=stream, clock=Clock()) as shown:
        shown.update(5, "3 to go")
    assert "5/?" in stream.getvalue()
    assert "3 to go" in stream.getvalue()


def test_terminal_shared_with_others_gets_lines() -> None:
    stream = Terminal()
    with display("landed", 10, as_lines=True, stream=stream, clock=Clock()) as shown:
        shown.update(5)
    assert stream.getvalue() == "landed: 5 of 10 (50%)\n"


def test_log_lines_are_printed_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, elsewhere = Terminal(), io.StringIO()
    handlers = [logging.StreamHandler(stream), logging.StreamHandler(elsewhere)]
    monkeypatch.setattr(logging.getLogger(), "handlers", handlers)
    long = "a line that is longer than any terminal is wide, of which nothing is to be [broken] " * 3
    with display("landed", 10, stream=stream, clock=Clock()) as shown:
        shown.update(5)
        logging.getLogger("sarameya").warning(long)
        shown.update(6)
    logging.getLogger("sarameya").warning("afterwards")
    drawn = stream.getvalue()
    before, _, after = drawn.partition(long)
    assert before.endswith("\r\x1b[2K"), "the bar is erased before the line"
    assert after.startswith("\n")
    assert "landed" in after.partition("\n")[2], "the bar is drawn again below the line"
    assert drawn.endswith("afterwards\n")
    assert elsewhere.getvalue() == f"{long}\nafterwards\n"


def test_json_log_has_progress_records_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = logging.NullHandler()
    handler.setFormatter(JsonFormatter())
    logging.getLogger().addHandler(handler)
    caplog.set_level("INFO")
    stream, clock = Terminal(), Clock()
    try:
        with display("landed", 10, stream=stream, clock=clock) as shown:
            for second in range(6):
                clock.now = second * 7
                shown.update(second)
            shown.update(10)
            shown.print_line("aside")
    finally:
        logging.getLogger().removeHandler(handler)
    assert stream.getvalue() == ""
    lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    assert [(line["message"], line.get("done"), line.get("total")) for line in lines] == [
        ("landed: 0 of 10 (0%)", 0, 10),
        ("landed: 5 of 10 (50%)", 5, 10),
        ("landed: 10 of 10 (100%)", 10, 10),
        ("aside", None, None),
    ]


def work(shown: Steps, clock: Clock) -> None:
    shown("looking")
    clock.now += 1
    shown("counting", 100)
    for _ in range(5):
        clock.now += 1
        shown.update(int(clock.now) * 10)
    shown("done with it")


def test_each_step_has_a_line_and_a_long_one_several() -> None:
    stream, clock = io.StringIO(), Clock()
    with steps(stream=stream, clock=clock) as shown:
        work(shown, clock)
    assert stream.getvalue().splitlines() == [
        "looking",
        "counting",
        "counting: 30 of 100 (30%)",
        "counting: 50 of 100 (50%)",
        "done with it",
    ]


def test_steps_with_patience_have_lines_only_if_slow() -> None:
    stream, clock = io.StringIO(), Clock()
    with steps(patience=4.0, stream=stream, clock=clock) as shown:
        work(shown, clock)
    assert stream.getvalue().splitlines() == ["counting: 40 of 100 (40%)", "counting: 60 of 100 (60%)", "done with it"]


def test_steps_on_a_terminal_are_a_bar_that_is_erased() -> None:
    stream, clock = Terminal(), Clock()
    with steps(stream=stream, clock=clock) as shown:
        work(shown, clock)
    text = stream.getvalue()
    assert "looking" in text
    assert "60/100" in text
    assert text.endswith("\x1b[2K"), "the bar is erased"


def test_quiet_steps_show_nothing() -> None:
    stream, clock = Terminal(), Clock()
    with steps(quiet=True, stream=stream, clock=clock) as shown:
        work(shown, clock)
    assert stream.getvalue() == ""


def test_results_go_to_stdout_beside_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with display("landed", 10, stream=Terminal(), clock=Clock()) as shown:
        shown.update(5)
        print("a result")
    assert capsys.readouterr().out == "a result\n"
