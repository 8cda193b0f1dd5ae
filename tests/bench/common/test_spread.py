"""Medians, spreads and ratios."""

from __future__ import annotations

import pytest

from bench.common.spread import Spread, ratio


def test_median_of_an_even_count_is_the_mean_of_the_middle() -> None:
    assert Spread.of([4.0, 1.0, 3.0, 10.0]) == Spread(3.5, 1.0, 10.0)


def test_spread_of_no_measurements_raises() -> None:
    with pytest.raises(ValueError, match="no measurements"):
        Spread.of([])


def test_spread_text_shows_each_number() -> None:
    assert Spread(2.0, 1.0, 3.0).text(lambda number: f"{number:.1f}") == "2.0 (1.0, 3.0)"


def test_ratio_has_the_medians_and_its_spread_the_rounds() -> None:
    assert ratio([10.0, 30.0, 20.0], [10.0, 10.0, 5.0]) == Spread(2.0, 1.0, 4.0)


def test_ratio_of_different_numbers_of_rounds_raises() -> None:
    with pytest.raises(ValueError):
        ratio([1.0, 2.0], [1.0])


def test_ratio_of_no_rounds_raises() -> None:
    with pytest.raises(ValueError, match="no measurements"):
        ratio([], [])
