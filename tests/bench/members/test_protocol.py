"""Tasks for members' programs, and the lines that they print."""

from __future__ import annotations

import pytest

from bench.members.protocol import Line, MemberTask


def test_task_survives_a_json_round_trip() -> None:
    task = MemberTask("127.0.0.1:9092", "t", "g", 4, "loop", {"autocommit": True}, pace=0.1, slow_partition=3)

    assert MemberTask.of_json(task.to_json()) == task


def test_slow_partition_has_its_own_pace() -> None:
    task = MemberTask("127.0.0.1:9092", "t", "g", 4, pace=0.1, slow_partition=3, slow_pace=0.5)

    assert [task.pace_of(partition) for partition in range(4)] == [0.1, 0.1, 0.1, 0.5]


def test_line_has_the_reported_fields() -> None:
    assert Line.of_json(b'{"event": "done", "at": 1.5, "others": 7, "lateness": [3, 4]}') == Line(
        "done", 1.5, others=7, lateness=(3, 4)
    )


@pytest.mark.parametrize("text", ["", "[]", '{"at": 1.0}', '{"event": "done", "at": 1.0, "more": 1}', "Traceback"])
def test_malformed_line_raises(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        Line.of_json(text)
