"""Figures of a member's memory."""

from __future__ import annotations

import pytest

from bench.common.processes import Usage
from bench.common.results import Result
from bench.memory.figures import COLUMNS, GROWN, OVER, Base, figures, table

BASE = Base(loaded_bytes=40, assigned_bytes=50)


def looks(*sizes: int) -> list[Usage]:
    return [Usage(float(at), 0.0, size) for at, size in enumerate(sizes)]


def test_peak_is_the_most_at_any_time() -> None:
    told = figures(BASE, looks(60, 200, 100, 100, 100), handled=8)

    assert (told["peak_bytes"], told[OVER], told["handled_a_second"]) == (200, 150, 2.0)
    assert set(told) == {column.key for column in COLUMNS}


def test_slope_is_of_the_last_half_only() -> None:
    told = figures(BASE, looks(60, 100, 150, 200, 200, 200, 200), handled=0)

    assert (told["slope_bytes_a_second"], told[GROWN]) == (0.0, 0.0)


def test_growth_is_the_rise_of_the_last_half_as_part_of_the_peak() -> None:
    told = figures(BASE, looks(60, 100, 160, 170, 180, 190, 200), handled=0)

    assert told["slope_bytes_a_second"] == pytest.approx(10.0)
    assert told[GROWN] == pytest.approx(3 * 10.0 / 200)


def test_too_few_looks_raise() -> None:
    with pytest.raises(ValueError, match="3 samples"):
        figures(BASE, looks(1, 2, 3), handled=0)


def test_members_with_a_budget_must_keep_it_and_stay_flat() -> None:
    flat = Result("flat", True, runs=[figures(BASE, looks(60, 100, 95_000_050, 95_000_050, 95_000_050, 95_000_050), 0)])
    rising = Result("rising", True, runs=[figures(BASE, looks(60, 100, 95_000_051, 98_000_000), 0)])
    peer = Result("peer", False, runs=[figures(BASE, looks(60, 100, 95_000_051, 98_000_000), 0)])

    made = table("1 partition(s)", [flat, rising, peer], {"flat": 80_000_000, "rising": 80_000_000}, 0.0)
    assert {(check.row, check.key): check.reached for check in made.checks} == {
        ("flat", OVER): True,
        ("rising", OVER): False,
        ("flat", GROWN): True,
        ("rising", GROWN): False,
    }
