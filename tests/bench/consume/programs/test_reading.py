"""Messages to contenders, and from them."""

from __future__ import annotations

import json

import pytest

from bench.consume.programs.reading import Outcome, Stopwatch, Task
from tests.bench.consume.kit import outcome


def test_task_comes_through_json() -> None:
    task = Task("127.0.0.1:9092", "t", "g", "poll", 10, (5, 5))

    assert Task.of_json(task.to_json()) == task


def test_outcome_comes_through_json() -> None:
    assert Outcome.of_json(outcome().to_json()) == outcome()


@pytest.mark.parametrize("text", ["", "[]", '{"messages": 1}', "Traceback"])
def test_what_is_no_outcome_raises(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        Outcome.of_json(text)


def test_stopwatch_tells_one_line_with_what_this_program_used(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Stopwatch()
    watch.first()
    watch.last()
    watch.report(3, 600, "trio", " (more)")

    [line] = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert (told["messages"], told["bytes"]) == (3, 600)
    assert 0 <= told["seconds"] <= told["seconds_from_start"]
    assert told["cpu_seconds"] > 0
    assert 0 <= told["reading_cpu_seconds"] <= told["cpu_seconds"]
    assert told["peak_rss_bytes"] > 10_000_000
    assert told["version"].endswith(" (more)")
