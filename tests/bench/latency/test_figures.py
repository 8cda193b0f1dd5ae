"""Percentiles of latency, and faults that disqualify a run."""

from __future__ import annotations

import pytest

from bench.common.results import Result
from bench.latency.contenders import CONTENDERS
from bench.latency.figures import COLUMNS, CPU, GOALS, fault, figures, quantile, table
from bench.latency.sending import Sent
from bench.members.protocol import Line


def done(*sequences: int) -> Line:
    return Line("done", 0.0, sequences=sequences, lateness=tuple(1_000_000 * (number + 1) for number in sequences))


def sent(count: int, seconds: float = 0.004, failures: int = 0) -> Sent:
    return Sent(failures, seconds, tuple(500_000 for _ in range(count)))


def test_run_with_each_message_once_has_no_fault() -> None:
    assert fault(done(2, 0, 1, 3), sent(4), 4, 1_000) is None


@pytest.mark.parametrize(
    ("line", "sending", "reason"),
    [
        (done(0, 1, 3), sent(4), "1 of 4 messages did not come, 0 came more than once"),
        (done(0, 1, 2, 3, 3), sent(4), "0 of 4 messages did not come, 1 came more than once"),
        (done(0, 1, 3, 3), sent(4), "1 of 4 messages did not come, 1 came more than once"),
        (done(0, 1, 2), sent(3, failures=1), "1 of 4 messages could not be sent, 3 were acknowledged"),
        (done(0, 1, 2, 3), sent(4, seconds=0.005), "4 messages took 0.01 s to be sent"),
    ],
)
def test_run_that_lost_repeated_or_delayed_messages_has_a_fault(line: Line, sending: Sent, reason: str) -> None:
    assert fault(line, sending, 4, 1_000) == reason


def test_run_without_a_rate_may_take_any_time() -> None:
    assert fault(done(0, 1, 2, 3), sent(4, seconds=9.0), 4, 0) is None


@pytest.mark.parametrize(("part", "number"), [(0.5, 50), (0.99, 99), (0.999, 100), (1.0, 100), (0.0, 1)])
def test_quantile_is_one_of_the_numbers(part: float, number: int) -> None:
    assert quantile(list(range(100, 0, -1)), part) == number


def test_quantile_of_no_numbers_raises() -> None:
    with pytest.raises(ValueError, match="no numbers"):
        quantile([], 0.5)


def test_warm_up_messages_are_not_counted() -> None:
    found = figures(done(3, 2, 1, 0), Sent(0, 1.0, (9_000_000, 9_000_000, 1_000_000, 3_000_000)), 2)

    assert (found["p50"], found["most"]) == (0.003, 0.004)
    assert (found["acknowledged_p50"], found["acknowledged_p99"]) == (0.001, 0.003)
    assert {*found, CPU} == {column.key for column in COLUMNS}


def test_defaults_and_tuned_contenders_are_compared_separately() -> None:
    run = {**figures(done(0), sent(1), 0), CPU: 0.1}
    results = [Result(one.name, one.is_ours, runs=[run]) for one in CONTENDERS]
    ratios = table(results, 0.0).ratios

    assert all(ratio.ours.endswith("-tuned") == ratio.theirs.endswith("-tuned") for ratio in ratios)
    assert {ratio.key for ratio in ratios} == {"p50", "p99", "p999", "most"}
    assert {(ratio.ours, ratio.theirs, ratio.key) for ratio in ratios if ratio.goal is not None} == {
        ("sarameya", "confluent-kafka", "p99"),
        ("sarameya-tuned", "confluent-kafka-tuned", "p99"),
    }


def test_goals_name_existing_contenders() -> None:
    assert {name for pair in GOALS for name in pair} <= {one.name for one in CONTENDERS}
