"""What runs come to: what counts, rates, ratios, goals."""

from __future__ import annotations

import attrs
import pytest

from bench.common.spread import Spread
from bench.consume.contenders import CONTENDERS
from bench.consume.figures import GOALS, Result, fastest, fault
from tests.bench.consume.kit import COMBINATION, contender, field, outcome, result


def test_run_that_read_all_there_is_has_no_fault() -> None:
    assert fault(outcome(), COMBINATION) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"messages": 999}, "read 999 messages of 1000"),
        ({"messages": 1001}, "read 1001 messages of 1000"),
        ({"bytes": 199_999}, "read 199999 bytes of 200000"),
        ({"bytes": 199_895, "bytes_within": 104}, "read 199895 bytes of 200000"),
        ({"seconds": 0.0}, "took 0 s"),
    ],
)
def test_run_that_read_something_else_is_at_fault(changes: dict[str, float], reason: str) -> None:
    assert fault(outcome(**changes), COMBINATION) == reason


def test_bytes_that_are_told_less_exactly_may_be_off_by_that() -> None:
    assert fault(outcome(bytes=199_896, bytes_within=104), COMBINATION) is None


def test_result_with_one_run_at_fault_does_not_count() -> None:
    sarama = Result(contender("sarama"))
    sarama.add(outcome(), COMBINATION)
    sarama.add(outcome(messages=1), COMBINATION)

    assert not sarama.counts
    assert sarama.failures == ["read 1 messages of 1000"]


def test_result_with_a_run_that_told_nothing_does_not_count() -> None:
    sarama = Result(contender("sarama"))
    sarama.add("exited with 1: no broker", COMBINATION)

    assert not sarama.counts
    assert sarama.failures == ["exited with 1: no broker"]


def test_result_without_runs_does_not_count() -> None:
    assert not Result(contender("sarama")).counts


def test_rate_is_messages_from_the_first_to_the_last() -> None:
    assert result("sarama", 0.5, 2.0).rates == [2_000.0, 500.0]


def test_ratio_above_one_says_that_ours_is_faster() -> None:
    [ratio] = field(result("sarameya-messages", 1.0, 2.0, 1.0), result("sarama", 2.0, 2.0, 4.0)).ratios

    assert (ratio.ours, ratio.theirs) == ("sarameya-messages", "sarama")
    assert ratio.spread == Spread(2.0, 1.0, 4.0)


def test_ratios_are_of_ours_to_each_peer_and_to_one_another_where_that_is_a_goal() -> None:
    names = ("sarameya-messages", "sarameya-arrow", "sarama", "java")

    assert [(ratio.ours, ratio.theirs) for ratio in field(*(result(name, 1.0) for name in names)).ratios] == [
        ("sarameya-messages", "sarama"),
        ("sarameya-messages", "java"),
        ("sarameya-arrow", "sarameya-messages"),
        ("sarameya-arrow", "sarama"),
        ("sarameya-arrow", "java"),
    ]


def test_contender_that_failed_has_no_ratio_and_is_not_dropped() -> None:
    one = field(result("sarameya-messages", 1.0), result("sarama", 1.0, failures=("exited with 1",)))

    assert one.ratios == []
    assert [failed.contender.name for failed in one.failed] == ["sarama"]


@pytest.mark.parametrize(("seconds", "reached"), [(1.43, False), (1.42, True)])
def test_goal_is_reached_from_its_ratio_on(seconds: float, reached: bool) -> None:
    [ratio] = field(result("sarameya-messages", seconds), result("sarama", 1.0)).ratios

    assert (ratio.goal, ratio.reached) == (0.7, reached)


def test_goal_is_for_one_combination_only() -> None:
    compressed = attrs.evolve(COMBINATION, codec="lz4")
    [ratio] = field(result("sarameya-messages", 1.0), result("sarama", 1.0), combination=compressed).ratios

    assert (ratio.goal, ratio.reached) == (None, None)


def test_goals_name_contenders_that_there_are() -> None:
    assert {name for pair in GOALS for name in pair} <= {one.name for one in CONTENDERS}


def test_fastest_has_the_highest_median_of_those_that_count() -> None:
    steady, lucky = result("aiokafka-getmany", 2.0, 2.0, 2.0), result("kafka-python", 0.1, 9.0, 9.0)
    failed = result("confluent-poll", 0.1, failures=("exited with 1",))

    assert fastest([lucky, steady, failed]) is steady


def test_fastest_of_none_that_count_is_none() -> None:
    assert fastest([result("sarama", 1.0, failures=("exited with 1",))]) is None
