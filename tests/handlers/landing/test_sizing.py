from __future__ import annotations

import pytest

from sarameya_handlers.landing.sizing import Sizing


def test_size_without_a_target_is_the_limit() -> None:
    sizing = Sizing(1000)
    sizing.add_flush(1000, 100)
    assert sizing.bytes == 1000


def test_size_before_the_first_flush_is_the_limit() -> None:
    assert Sizing(1000, target=500).bytes == 1000


def test_first_flush_sets_the_ratio() -> None:
    sizing = Sizing(1000, target=500)
    sizing.add_flush(1000, 100)
    assert sizing.bytes == 5000


def test_files_approach_the_target_size() -> None:
    sizing = Sizing(1000, target=500)
    for ratio in [0.1] * 5 + [0.5] * 30:
        sizing.add_flush(sizing.bytes, int(sizing.bytes * ratio))
    assert sizing.bytes * 0.5 == pytest.approx(500, rel=0.02)


@pytest.mark.parametrize(("collected", "stored"), [(0, 10), (10, 0), (10, -1)])
def test_empty_flush_does_not_change_the_size(collected: int, stored: int) -> None:
    sizing = Sizing(1000, target=500)
    sizing.add_flush(collected, stored)
    assert sizing.bytes == 1000


def test_size_is_limited_after_one_odd_flush() -> None:
    sizing = Sizing(1000, target=10**9)
    sizing.add_flush(1000, 1)
    assert sizing.bytes == 16_000
