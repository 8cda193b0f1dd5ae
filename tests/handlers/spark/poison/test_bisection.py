from __future__ import annotations

from collections.abc import Callable, Set
from contextlib import suppress
from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya_handlers.spark.poison.bisection import TogetherError, TooManyError, TooManyTriesError, find_failing


class Tries:
    """A fake run. It fails with the names of its bad records, and also if it has all records of `together`."""

    def __init__(self, bad: Set[int], together: Set[int] = frozenset()) -> None:
        self.bad = bad
        self.together = together
        self.count = 0

    def __call__(self, low: int, high: int) -> str | None:
        assert low < high
        self.count += 1
        found = [str(n) for n in range(low, high) if n in self.bad]
        if self.together and self.together <= set(range(low, high)):
            found.append("together")
        return " ".join(found) or None


@st.composite
def some_of_many(draw: Callable[..., object]) -> tuple[int, set[int]]:
    count = draw(st.integers(1, 5_000))
    return count, draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=min(count, 40)))  # type: ignore


@given(some_of_many())
def test_exactly_the_failing_records_are_found_in_few_tries(given: tuple[int, set[int]]) -> None:
    count, bad = given
    tries = Tries(bad)

    assert find_failing(count, "all", tries, len(bad)) == [(n, str(n) if count > 1 else "all") for n in sorted(bad)]
    assert tries.count <= 2 * len(bad) * (ceil(log2(count)) + 1)


def test_one_of_250_000_is_found_within_37_tries() -> None:
    for bad in (0, 123_456, 249_999):
        tries = Tries({bad})
        find_failing(250_000, "all", tries, 10)
        assert tries.count <= 37


@given(some_of_many(), st.integers(0, 200))
def test_fault_62_number_of_tries_is_bounded(given: tuple[int, set[int]], allowed: int) -> None:
    count, bad = given
    tries = Tries(bad)
    found: list[int] = []
    with suppress(TooManyTriesError):
        found = [place for place, _ in find_failing(count, "all", tries, len(bad), tries=allowed)]
    assert found == sorted(bad) or allowed < 2 * len(bad) * (ceil(log2(count)) + 1)
    assert tries.count <= allowed


def test_fault_62_search_stops_early_for_a_thousand_failures() -> None:
    tries = Tries(set(range(0, 250_000, 250)))
    with pytest.raises(TooManyTriesError) as caught:
        find_failing(250_000, "all", tries, 1_000, tries=2_000)
    assert tries.count < 600, "the search stops long before the tries are used up"
    assert caught.value.count > 100

    spread = set(range(0, 250_000, 5_000))
    tries = Tries(spread)
    assert [place for place, _ in find_failing(250_000, "all", tries, 1_000, tries=2_000)] == sorted(spread)


@given(some_of_many(), st.integers(0, 39))
def test_search_stops_when_too_many_fail(given: tuple[int, set[int]], most: int) -> None:
    count, bad = given
    if len(bad) <= most:
        return
    tries = Tries(bad)
    with pytest.raises(TooManyError) as caught:
        find_failing(count, "all", tries, most)
    assert most < caught.value.count <= len(bad)
    assert caught.value.error


def test_batch_failing_as_a_whole_stops_within_its_tries() -> None:
    tries = Tries(set(range(250_000)))
    with pytest.raises(TooManyError):
        find_failing(250_000, "all", tries, 1_000)
    assert tries.count < 2_100


@given(st.integers(2, 3_000), st.data())
def test_joint_failure_is_reported_with_its_range(count: int, data: st.DataObject) -> None:
    low = data.draw(st.integers(0, count - 2))
    high = data.draw(st.integers(low + 1, count - 1))
    with pytest.raises(TogetherError) as caught:
        find_failing(count, "together", Tries(set(), {low, high}), 10)
    assert caught.value.low <= low < high < caught.value.high
    assert caught.value.error == "together"


def test_joint_failure_is_reported_despite_a_single_failure() -> None:
    with pytest.raises(TogetherError):
        find_failing(1_000, "all", Tries({3}, {600, 900}), 10)


def test_zero_tolerance_stops_at_the_first_failure() -> None:
    with pytest.raises(TooManyError):
        find_failing(1, "all", Tries({0}), 0)


def test_error_of_the_probe_is_raised() -> None:
    def probe(low: int, high: int) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        find_failing(10, "all", probe, 10)
