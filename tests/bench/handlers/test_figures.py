"""Figures of waiting handlers, and faults that disqualify a run."""

from __future__ import annotations

import pytest

from bench.common.results import Result
from bench.handlers.figures import (
    CASES,
    CLAIM,
    COLUMNS,
    CONCURRENTLY,
    CPU,
    OVERHEAD,
    RATE,
    TRACKER,
    Case,
    backlog_figures,
    fault,
    table,
    tracker_table,
)
from bench.handlers.rounds import CONTENDERS
from bench.latency.figures import P99
from bench.latency.sending import SendTask, Sent
from bench.members.protocol import Line

BY_PARTITION, BY_KEY, IN_NO_ORDER = CASES
TASK = SendTask("127.0.0.1:9092", "t", partitions=2, messages=40, rate=0, size=200, keys=4)
SENT = Sent(0, 1.0, (1,) * TASK.messages)


def handled(sequences: list[int]) -> Line:
    return Line("done", 0.0, sequences=tuple(sequences), lateness=(0,) * len(sequences))


def in_order_of(lanes: list[int]) -> list[int]:
    """Return the sequences of all messages, lane by lane."""
    return sorted(range(TASK.messages), key=lambda sequence: (lanes[sequence], sequence))


PARTITION_AFTER_PARTITION = in_order_of([sequence % 2 for sequence in range(TASK.messages)])
KEY_AFTER_KEY = in_order_of(TASK.key_numbers())
BACKWARDS = list(range(TASK.messages))[::-1]


@pytest.mark.parametrize(
    ("case", "sequences", "is_in_order"),
    [
        (BY_PARTITION, PARTITION_AFTER_PARTITION, True),
        (BY_PARTITION, KEY_AFTER_KEY, False),
        (BY_KEY, PARTITION_AFTER_PARTITION, True),
        (BY_KEY, KEY_AFTER_KEY, True),
        (BY_KEY, BACKWARDS, False),
        (IN_NO_ORDER, BACKWARDS, True),
    ],
)
def test_run_counts_if_messages_of_a_lane_are_in_order(case: Case, sequences: list[int], is_in_order: bool) -> None:
    reason = fault(handled(sequences), SENT, TASK, case)

    assert reason is None if is_in_order else reason is not None and "behind it in its order" in reason


def test_run_with_a_missing_message_does_not_count() -> None:
    assert fault(handled(BACKWARDS[1:]), SENT, TASK, IN_NO_ORDER) == (
        "1 of 40 messages did not come, 0 came more than once"
    )


def test_rates_follow_from_the_concurrent_messages() -> None:
    assert [(case.possible, case.steady) for case in CASES] == [(400, 240), (5_000, 3_000), (5_000, 3_000)]


def test_backlog_counts_cpu_time_after_the_first_report() -> None:
    lines = [Line("progress", 10.0, others=100), Line("progress", 11.0, others=500), Line("progress", 11.5, others=600)]

    assert backlog_figures(lines, 100, 600, 0.05) == {RATE: 400.0, CPU: 1e-4}


def test_backlog_handled_in_one_report_raises() -> None:
    with pytest.raises(ValueError, match="before the first report"):
        backlog_figures([Line("progress", 10.0, others=600)], 600, 600, 0.05)


def test_ours_is_compared_with_each_peer_by_rate_cpu_and_latency() -> None:
    run = {column.key: 1.0 for column in COLUMNS}
    results = [Result(contender.name, contender.is_ours, runs=[run]) for contender in CONTENDERS]
    ratios = table(BY_KEY, results, 0.0).ratios

    assert [(ratio.ours, ratio.theirs, ratio.key) for ratio in ratios] == [
        ("sarameya", peer, key) for key in (RATE, CPU, P99) for peer in ("parallel-consumer", "aiokafka-pool")
    ]


def measured(name: str, *microseconds: float) -> Result:
    return Result(name, is_ours=True, runs=[{CPU: each / 1e6} for each in microseconds])


def test_overhead_is_the_difference_per_round() -> None:
    found = tracker_table(measured(CLAIM, 1, 2), measured(CONCURRENTLY, 3, 7), measured(TRACKER, 1, 1), 134, 0.0)

    [row] = [row for row in found.rows if row.name == OVERHEAD]
    assert (row.figures[CPU].least, row.figures[CPU].most) == (pytest.approx(2e-6), pytest.approx(5e-6))
    assert [(check.row, check.reached) for check in found.checks] == [(OVERHEAD, False), (TRACKER, True)]


def test_overhead_has_no_figure_if_a_run_has_failed() -> None:
    failed = measured(CLAIM, 1)
    failed.add("ended with 1")
    found = tracker_table(failed, measured(CONCURRENTLY, 3, 7), measured(TRACKER, 1, 1), 134, 0.0)

    assert found.has_failures
    assert [check.row for check in found.checks] == [TRACKER]
