"""Figures summed over all workers."""

from __future__ import annotations

import pytest

from bench.common.results import Result
from bench.workers.figures import (
    COLUMNS,
    assignment,
    assignment_text,
    fault,
    figures,
    is_complete,
    name,
    table,
)
from bench.workers.handler import WorkerLine


def assigned(pid: int, *partitions: int) -> WorkerLine:
    return WorkerLine("assigned", pid, partitions)


def read(pid: int, partition: int, messages: int, first: float = 0.0, last: float = 1.0) -> WorkerLine:
    return WorkerLine("read", pid, (partition,), messages, first, last)


def test_assignment_is_the_last_report_of_each_worker() -> None:
    lines = [assigned(1, 0, 1, 2, 3), assigned(2, 2, 3), assigned(1, 0, 1), read(1, 0, 5)]

    assert assignment(lines) == {1: (0, 1), 2: (2, 3)}


@pytest.mark.parametrize(
    ("found", "complete"),
    [
        ({}, False),
        ({1: (0, 1, 2, 3)}, False),
        ({1: (0, 1, 2, 3), 2: (2, 3)}, False),
        ({1: (0, 1, 2, 3), 2: ()}, False),
        ({1: (0, 1), 2: (2,)}, False),
        ({1: (0, 1), 2: (2, 3)}, True),
    ],
)
def test_assignment_is_complete_once_each_worker_has_its_own(found: dict[int, tuple[int, ...]], complete: bool) -> None:
    assert is_complete(found, 2, 4) is complete


def test_assignment_text_lists_partitions_by_worker() -> None:
    assert assignment_text({9: (2, 3), 7: (0, 1)}) == "0 1 | 2 3"


def test_rate_is_from_the_first_message_to_the_last_of_any_worker() -> None:
    row = figures([read(1, 0, 300, 10.0, 12.0), read(2, 1, 500, 10.5, 14.0)], 1.5, 0.5)

    assert [row[column.key] for column in COLUMNS] == [200.0, 4.0, 1.5, 0.5]


def test_run_that_read_each_partition_to_its_end_has_no_fault() -> None:
    assert fault([read(2, 1, 7), read(1, 0, 5)], [5, 7]) is None


@pytest.mark.parametrize("lines", [[read(1, 0, 5)], [read(1, 0, 5), read(1, 1, 6)], [read(1, 0, 5), read(2, 0, 5)]])
def test_run_that_read_something_else_has_a_fault(lines: list[WorkerLine]) -> None:
    assert fault(lines, [5, 7]) is not None


@pytest.mark.parametrize(("rate", "reached"), [(1.1, True), (0.9, False)])
def test_goal_is_two_workers_faster_than_one(rate: float, reached: bool) -> None:
    runs = [(1, 1.0), (2, rate)]
    results = [
        Result(name(workers), True, runs=[figures([read(1, 0, 100, 0.0, 1.0 / faster)], 1.0, 1.0)])
        for workers, faster in runs
    ]
    [ratio] = table(results, [], 0.0).ratios

    assert (ratio.ours, ratio.theirs, ratio.reached) == ("2 workers", "1 worker", reached)
