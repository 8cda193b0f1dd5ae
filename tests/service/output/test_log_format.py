"""Log lines as text and as JSON. Tests that configure logging do so in a new process."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from sarameya import Secret
from sarameya.model import Generation, TopicPartition
from sarameya.observe import (
    Committed,
    Event,
    InterceptorFailed,
    LeaderChanged,
    SessionStarted,
    TaskStuck,
    TlsFilesRenewed,
    events,
    landings,
    log_event,
)
from sarameya.service.output.log_format import RESERVED, JsonFormatter, TextFormatter, configure_logging

P0 = TopicPartition("orders", 0)
STARTED = SessionStarted("g", Generation(3, "m", "range"), {"orders": (0,)})


def error_line(caplog: pytest.LogCaptureFixture, worker: int | None = None) -> dict[str, Any]:
    """Return the last record as a line of JSON."""
    text = JsonFormatter(worker).format(caplog.records[-1])
    assert "\n" not in text
    line: dict[str, Any] = json.loads(text)
    return line


def test_event_is_a_line_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    log_event(STARTED)
    line = error_line(caplog)
    assert datetime.fromisoformat(line.pop("time")).tzinfo == UTC
    assert line == {
        "level": "INFO",
        "logger": "sarameya",
        "message": str(STARTED),
        "event": "SessionStarted",
        "group": "g",
        "generation": 3,
        "assignment": {"orders": [0]},
    }


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        (Committed("g", {P0: 7}), {"group": "g", "offsets": {"orders-0": 7}}),
        (LeaderChanged(P0, None, 2, "why"), {"partition": "orders-0", "before": None, "after": 2, "cause": "why"}),
        (TaskStuck("claim", "one\ntwo"), {"what": "claim", "stack": "one\ntwo"}),
        (TlsFilesRenewed(("a", "b")), {"files": ["a", "b"]}),
        (
            InterceptorFailed("i", "on_consume", P0, 5, "broken", True),
            {"interceptor": "i", "call": "on_consume", "partition": "orders-0", "offset": 5}
            | {"error": "broken", "is_skipped": True},
        ),
    ],
)
def test_fields_have_types_of_json(caplog: pytest.LogCaptureFixture, event: Event, fields: dict[str, Any]) -> None:
    caplog.set_level(logging.DEBUG)
    log_event(event)
    line = error_line(caplog)
    assert {name: line[name] for name in fields} == fields
    assert line["message"] == str(event)


def test_no_event_field_has_a_reserved_name() -> None:
    kinds = [kind for module in (events, landings) for kind in vars(module).values() if isinstance(kind, type)]
    names = {field.name for kind in kinds if issubclass(kind, Event) for field in attrs.fields(kind)}
    assert len(names) > 20
    assert names & RESERVED == set()


def test_event_below_the_level_makes_no_record(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log_event(Committed("g", {P0: 7}))
    assert caplog.records == []


def test_traceback_is_one_field(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("no such account\nnor another")
    except ValueError:
        logging.getLogger("theirs").exception("cannot post %s", "it")
    line = error_line(caplog)
    assert (line["level"], line["logger"], line["message"]) == ("ERROR", "theirs", "cannot post it")
    assert line["traceback"].startswith("Traceback (most recent call last):\n")
    assert line["traceback"].endswith("ValueError: no such account\nnor another")


def test_worker_is_a_field(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("sarameya").error("x")
    assert error_line(caplog, 2)["worker"] == 2
    assert "worker" not in error_line(caplog)


def test_fields_of_a_handler_may_have_any_type(caplog: pytest.LogCaptureFixture) -> None:
    odd = {"key": b"\xff", "nan": float("nan"), "secret": Secret("sesame"), "level": "theirs", "deep": {1: {"a"}}}
    logging.getLogger("theirs").error("text", extra={"fields": odd})
    line = error_line(caplog)
    assert line["level"] == "ERROR"
    assert (line["key"], line["nan"], line["deep"]) == (r"b'\xff'", "nan", {"1": "{'a'}"})
    assert "sesame" not in json.dumps(line)


LOGGING = """
import logging, sys, warnings
from sarameya.service.output.log_format import configure_logging
configure_logging("info", log_format=sys.argv[1], worker=int(sys.argv[2]) or None)
logging.getLogger("sarameya").info("worker %d started", 7)
warnings.warn("old")
"""


def logged(log_format: str, worker: int = 0, *, terminal: bool = False) -> str:
    """Return the log output of a process to a pipe, or to a terminal."""
    reader, writer = os.openpty() if terminal else os.pipe()
    subprocess.run([sys.executable, "-c", LOGGING, log_format, str(worker)], stderr=writer, check=True, timeout=60)
    shown = os.read(reader, 65536).decode()
    os.close(reader)
    os.close(writer)
    return shown


@pytest.mark.parametrize(("log_format", "terminal"), [("text", False), ("text", True), ("auto", True)])
def test_text_log_has_time_level_and_worker(log_format: str, terminal: bool) -> None:
    line = logged(log_format, 2, terminal=terminal).splitlines()[0]
    assert datetime.fromisoformat(line[:23])
    assert line[23:] == " INFO    worker=2 worker 7 started"
    assert logged(log_format, terminal=terminal).splitlines()[0][23:] == " INFO    worker 7 started"


@pytest.mark.parametrize(("log_format", "terminal"), [("json", False), ("json", True), ("auto", False)])
def test_json_log_includes_python_warnings(log_format: str, terminal: bool) -> None:
    started, warning = map(json.loads, logged(log_format, 2, terminal=terminal).splitlines())
    assert (started["message"], started["worker"]) == ("worker 7 started", 2)
    assert (warning["logger"], warning["level"], warning["worker"]) == ("py.warnings", "WARNING", 2)
    assert "UserWarning: old" in warning["message"]


def test_interactive_commands_log_text_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(logging, "basicConfig", given.update)
    configure_logging("info")
    [handler] = given["handlers"]
    assert not isinstance(handler.formatter, JsonFormatter)


def test_secrets_in_foreign_texts_are_masked(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    text = "POST https://me:sesame@here/?api_key=sesame"
    log_event(InterceptorFailed("mine", "on_consume", P0, 1, text, is_skipped=True))
    try:
        raise ValueError(text)
    except ValueError as error:
        logging.getLogger("x").error("%s", text, exc_info=error, extra={"fields": {"n": [text], "error": error}})
    for record in caplog.records:
        assert "sesame" not in JsonFormatter().format(record) + TextFormatter().format(record)
