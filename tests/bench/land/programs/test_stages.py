"""Seconds that a sink spends in each stage."""

from __future__ import annotations

from bench.land.programs.stages import FLUSH, LAND, OTHER, READ_BACK, StageClock


class Time:
    """A clock that only `passes` moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += seconds


def test_seconds_are_summed_by_stage() -> None:
    time = Time()
    clock = StageClock(time)
    with clock.running(OTHER):
        time.passes(1.0)
    time.passes(2.0)
    for _ in range(2):
        with clock.running(FLUSH):
            time.passes(0.5)
            with clock.running(LAND):
                time.passes(4.0)
    with clock.running(READ_BACK):
        time.passes(0.25)

    assert clock.flushes == 2
    assert clock.stages() == {
        "staging": 1.0,
        "writing and linking": 8.0,
        "reading back": 0.25,
        "opening, heads": 1.0,
        "nothing landing": 3.0,
    }


def test_concurrent_stages_count_for_each() -> None:
    time = Time()
    clock = StageClock(time)
    with clock.running(FLUSH), clock.running(LAND):
        time.passes(1.0)
        with clock.running(FLUSH), clock.running(LAND):
            time.passes(2.0)

    assert clock.stages()["writing and linking"] == 5.0
    assert clock.stages()["nothing landing"] == 0.0
