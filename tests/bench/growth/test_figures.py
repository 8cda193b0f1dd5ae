"""Ratios between chain lengths, and their goals."""

from __future__ import annotations

import pytest

from bench.common.results import Result
from bench.growth.figures import LANDING, START, table


def result(length: str, seconds: float) -> Result:
    made = Result(length, is_ours=True)
    made.add({START: seconds, LANDING: 0.1})
    return made


@pytest.mark.parametrize(("seconds", "reached"), [(0.2, True), (0.4, False)])
def test_longest_chain_is_compared_with_the_shortest(seconds: float, reached: bool) -> None:
    made = table("parquet", "links", [result("10", 0.1), result("100", 9.0), result("1,000", seconds)], load=0.0)
    assert [(one.ours, one.theirs, one.key, one.reached) for one in made.ratios] == [
        ("1,000", "10", START, reached),
        ("1,000", "10", LANDING, True),
    ]


def test_failed_length_has_no_ratio() -> None:
    failed = Result("1,000", is_ours=True)
    failed.add("out of memory")
    made = table("parquet", "links", [result("10", 0.1), failed], load=0.0)
    assert made.ratios == ()
    assert made.has_failures
