"""Figures of a member's memory."""

from __future__ import annotations

import pytest

from bench.common.processes import Usage
from bench.common.results import Result
from bench.memory.figures import COLUMNS, GROWN, OVER, Base, figures, table

BASE = Base(loaded_bytes=40, assigned_bytes=50)


def samples(*sizes: int) -> list[Usage]:
    return [Usage(float(at), 0.0, size) for at, size in enumerate(sizes)]


def test_peak_is_the_highest_sample() -> None:
    found = figures(BASE, samples(60, 200, 100, 100, 100), handled=8)

    assert (found["peak_bytes"], found[OVER], found["handled_a_second"]) == (200, 150, 2.0)
    assert set(found) == {column.key for column in COLUMNS}


def test_slope_uses_only_the_last_half() -> None:
    found = figures(BASE, samples(60, 100, 150, 200, 200, 200, 200), handled=0)

    assert (found["slope_bytes_a_second"], found[GROWN]) == (0.0, 0.0)


def test_growth_is_the_rise_of_the_last_half_relative_to_the_peak() -> None:
    found = figures(BASE, samples(60, 100, 160, 170, 180, 190, 200), handled=0)

    assert found["slope_bytes_a_second"] == pytest.approx(10.0)
    assert found[GROWN] == pytest.approx(3 * 10.0 / 200)


def test_too_few_samples_raise() -> None:
    with pytest.raises(ValueError, match="3 samples"):
        figures(BASE, samples(1, 2, 3), handled=0)


def test_members_with_a_budget_must_keep_it_and_not_grow() -> None:
    flat = Result(
        "flat", True, runs=[figures(BASE, samples(60, 100, 95_000_050, 95_000_050, 95_000_050, 95_000_050), 0)]
    )
    rising = Result("rising", True, runs=[figures(BASE, samples(60, 100, 95_000_051, 98_000_000), 0)])
    peer = Result("peer", False, runs=[figures(BASE, samples(60, 100, 95_000_051, 98_000_000), 0)])

    made = table("1 partition(s)", [flat, rising, peer], {"flat": 80_000_000, "rising": 80_000_000}, 0.0)
    assert {(check.row, check.key): check.reached for check in made.checks} == {
        ("flat", OVER): True,
        ("rising", OVER): False,
        ("flat", GROWN): True,
        ("rising", GROWN): False,
    }
