"""Tasks for contenders' programs, and the outcomes that they print."""

from __future__ import annotations

import json

import pytest

from bench.consume.programs.reading import Outcome, Stopwatch, Task
from tests.bench.consume.kit import outcome


def test_task_survives_a_json_round_trip() -> None:
    task = Task("127.0.0.1:9092", "t", "g", "poll", 10, (5, 5))

    assert Task.of_json(task.to_json()) == task


def test_outcome_survives_a_json_round_trip() -> None:
    assert Outcome.of_json(outcome().to_json()) == outcome()


@pytest.mark.parametrize("text", ["", "[]", '{"messages": 1}', "Traceback"])
def test_malformed_outcome_raises(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        Outcome.of_json(text)


def test_stopwatch_prints_times_cpu_and_memory_as_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Stopwatch()
    watch.first()
    watch.last()
    watch.report(3, 600, "trio", " (more)")

    [line] = capsys.readouterr().out.splitlines()
    printed = json.loads(line)
    assert (printed["messages"], printed["bytes"]) == (3, 600)
    assert 0 <= printed["seconds"] <= printed["seconds_from_start"]
    assert printed["cpu_seconds"] > 0
    assert 0 <= printed["reading_cpu_seconds"] <= printed["cpu_seconds"]
    assert printed["peak_rss_bytes"] > 10_000_000
    assert printed["version"].endswith(" (more)")
