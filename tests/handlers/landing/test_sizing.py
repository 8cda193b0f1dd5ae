from __future__ import annotations

import pytest

from sarameya_handlers.landing.sizing import Sizing


def test_without_a_target_it_is_the_limit() -> None:
    sizing = Sizing(1000)
    sizing.add_flush(1000, 100)
    assert sizing.bytes == 1000


def test_before_the_first_landing_it_is_the_limit() -> None:
    assert Sizing(1000, target=500).bytes == 1000


def test_first_landing_tells_the_factor() -> None:
    sizing = Sizing(1000, target=500)
    sizing.add_flush(1000, 100)
    assert sizing.bytes == 5000


def test_files_come_out_as_large_as_they_should() -> None:
    sizing = Sizing(1000, target=500)
    for ratio in [0.1] * 5 + [0.5] * 30:
        sizing.add_flush(sizing.bytes, int(sizing.bytes * ratio))
    assert sizing.bytes * 0.5 == pytest.approx(500, rel=0.02)


@pytest.mark.parametrize(("collected", "stored"), [(0, 10), (10, 0), (10, -1)])
def test_empty_landings_tell_nothing(collected: int, stored: int) -> None:
    sizing = Sizing(1000, target=500)
    sizing.add_flush(collected, stored)
    assert sizing.bytes == 1000


def test_memory_does_not_follow_one_odd_landing() -> None:
    sizing = Sizing(1000, target=10**9)
    sizing.add_flush(1000, 1)
    assert sizing.bytes == 16_000
