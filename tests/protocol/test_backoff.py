import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya.protocol.backoff import Attempts, Backoff


class Fixed(random.Random):
    """Random numbers at a fixed place between the two bounds."""

    def __init__(self, fraction: float) -> None:
        self.fraction = fraction

    def uniform(self, a, b):
        return a + (b - a) * self.fraction


MIDDLE = Fixed(0.5)


def test_delay_doubles_up_to_the_maximum():
    backoff = Backoff(0.1, 1.0, rng=MIDDLE)
    assert [round(backoff.delay(n), 6) for n in range(1, 7)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


@pytest.mark.parametrize(("fraction", "delay"), [(0.0, 0.08), (1.0, 0.12)])
def test_jitter_is_a_fifth_in_both_directions(fraction, delay):
    assert Backoff(0.1, 1.0, rng=Fixed(fraction)).delay(1) == pytest.approx(delay)


def test_jitter_never_exceeds_the_maximum():
    assert Backoff(0.1, 1.0, rng=Fixed(1.0)).delay(10) == 1.0
    assert Backoff(5.0, 1.0, rng=Fixed(1.0)).delay(1) == 1.0


@given(st.floats(0.001, 10), st.floats(0.001, 100), st.integers(1, 10**9))
def test_delay_is_positive_and_bounded_at_any_attempt(initial, maximum, attempt):
    assert 0 < Backoff(initial, maximum).delay(attempt) <= maximum


def test_two_backoffs_have_different_delays():
    assert Backoff(1.0, 10.0).delay(1) != Backoff(1.0, 10.0).delay(1)


def test_attempts_count_retries_and_keep_the_last_cause():
    attempts = Attempts.first(12.5, "refused").again("timed out").again("reset")
    assert attempts == Attempts(attempt=3, since=12.5, cause="reset")
