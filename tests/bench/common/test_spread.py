"""Medians, spreads and ratios."""

from __future__ import annotations

import pytest

from bench.common.spread import Spread, ratio


def test_spread_has_the_median_of_both_middle_ones() -> None:
    assert Spread.of([4.0, 1.0, 3.0, 10.0]) == Spread(3.5, 1.0, 10.0)


def test_spread_of_nothing_raises() -> None:
    with pytest.raises(ValueError, match="no measurements"):
        Spread.of([])


def test_spread_text_shows_each_number() -> None:
    assert Spread(2.0, 1.0, 3.0).text(lambda number: f"{number:.1f}") == "2.0 (1.0, 3.0)"


def test_ratio_is_of_medians_and_its_spread_of_rounds() -> None:
    assert ratio([10.0, 30.0, 20.0], [10.0, 10.0, 5.0]) == Spread(2.0, 1.0, 4.0)


def test_ratio_of_different_numbers_of_rounds_raises() -> None:
    with pytest.raises(ValueError):
        ratio([1.0, 2.0], [1.0])


def test_ratio_of_no_rounds_raises() -> None:
    with pytest.raises(ValueError, match="no measurements"):
        ratio([], [])
