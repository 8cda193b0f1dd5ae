"""Figures computed from the reports of members."""

from __future__ import annotations

import pytest

from bench.common.results import Result
from bench.rebalance.figures import COLUMNS, Cost, figures, first_message, longest_silence, table, taken_over
from tests.integration.peers.lines import Line


def messages(partition: int, *times: float) -> list[Line]:
    return [Line("message", at, (partition,), offset) for offset, at in enumerate(times)]


def test_first_message_counts_from_the_start() -> None:
    lines = [Line("starting", 10.0), Line("assigned", 10.5, (0,)), *messages(0, 9.0, 12.0, 13.0)]

    assert first_message(lines, 10.0) == 2.0


def test_missing_first_message_raises() -> None:
    with pytest.raises(ValueError):
        first_message(messages(0, 1.0), 10.0)


def test_takeover_ends_with_the_last_partition() -> None:
    lines = [*messages(0, 10.1), *messages(1, 10.2), *messages(2, 10.9)]

    assert taken_over(lines, {0, 1}, 10.0) == pytest.approx(0.2)


def test_silence_is_the_longest_of_any_kept_partition() -> None:
    lines = [*messages(0, 9.9, 10.0, 10.1, 10.2), *messages(1, 9.8, 10.4, 10.5), *messages(2, 0.0, 99.0)]

    assert longest_silence(lines, {0, 1}, 10.0, 11.0) == pytest.approx(0.6)


@pytest.mark.parametrize(("start", "end", "longest"), [(10.5, 10.6, 1.5), (10.0, 11.0, 1.5), (10.0, 20.0, 9.0)])
def test_silence_that_exceeds_the_window_counts_whole(start: float, end: float, longest: float) -> None:
    lines = messages(0, 0.0, 9.5, 11.0, 11.5, 20.5, 90.0)

    assert longest_silence(lines, {0}, start, end) == longest


def test_round_has_all_figures_and_the_worse_quiet_time() -> None:
    found = figures(Cost(wait=1.0, pause=0.2, steady=0.03), Cost(wait=2.0, pause=0.4, steady=0.05))

    assert [found[column.key] for column in COLUMNS] == [1.0, 0.2, 2.0, 0.4, 0.05]


def test_table_compares_all_figures_but_the_quiet_time() -> None:
    cost = Cost(1.0, 1.0, 1.0)
    results = [Result(name, name == "ours", runs=[figures(cost, cost)]) for name in ("ours", "theirs")]

    assert [ratio.key for ratio in table(results, 0.0).ratios] == [column.key for column in COLUMNS][:-1]
