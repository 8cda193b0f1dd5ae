"""Cancellation at each step of landings, by the event loop and at a landing's own checkpoints.

The next owner finds no damage and no leftovers. Parquet without threads, so that the test covers every step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from sarameya_handlers import ParquetTable
from tests.conformance.loop_sessions import NO_SPARK, RECORDS, LoopEngine, World

pytestmark = [
    pytest.mark.usefixtures("unsynced"),
    pytest.mark.landing(what="cancelled", table="Parquet", store="local disk", spark="none"),
]


class CancelAtStep(trio.abc.Instrument):
    """Cancels a scope at its n-th step: a step of any task, or of a landing to its next checkpoint."""

    def __init__(self, step: float) -> None:
        self.scope: trio.CancelScope | None = None
        self.steps = 0
        self._step = step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count_step()

    def count_step(self) -> None:
        if self.scope is not None:
            self.steps += 1
            if self.steps == self._step:
                self.scope.cancel()


async def cancel_all(world: World, canceller: CancelAtStep) -> None:
    """Cancel the sink and all its tasks, as when a service is cancelled."""
    with trio.CancelScope() as canceller.scope:
        async with world.sink(LoopEngine(canceller.count_step)) as sink:
            await world.session(sink)
    canceller.scope = None


async def cancel_one(world: World, canceller: CancelAtStep) -> None:
    """Cancel the claim of one partition, as at a rebalance's deadline; the others continue to land."""

    def scope_of(partition: int) -> trio.CancelScope:
        if partition == 1:
            canceller.scope = trio.CancelScope()
            return canceller.scope
        return trio.CancelScope()

    async with world.sink(LoopEngine(canceller.count_step)) as sink:
        await world.session(sink, scope_of=scope_of)
        canceller.scope = None
    landed = [link.to_offset for key in world.table.keys(NO_SPARK) for link in world.table.links(NO_SPARK, key, 1)[-1:]]
    assert sorted(landed)[-2:] == [RECORDS, RECORDS], "the other partitions have landed completely"


def run(scenario: Callable[[World, CancelAtStep], object], step: float, directory: Path, *, commits: bool) -> int:
    """Run a session that is cancelled at `step`, then one that is not. Return the number of steps of the first."""
    canceller = CancelAtStep(step)

    async def main() -> None:
        table = ParquetTable(directory)
        world = World(table, commits=commits)
        with trio.fail_after(1000):
            await scenario(world, canceller)  # type: ignore[misc]
        assert world.leftovers == []
        await world.land_the_rest()
        assert world.leftovers == []

    trio.run(main, clock=MockClock(autojump_threshold=0), instruments=[canceller])
    return canceller.steps


@pytest.mark.parametrize(
    ("scenario", "commits"),
    [(cancel_all, True), (cancel_all, False), (cancel_one, True)],
    ids=["all", "no-commit", "one"],
)
def test_cancellation_at_any_step_loses_no_row_and_leaves_no_file(
    scenario: Callable[[World, CancelAtStep], object], commits: bool, tmp_path: Path
) -> None:
    steps = run(scenario, math.inf, tmp_path / "whole", commits=commits)
    assert steps > 30
    for step in range(1, steps + 1):
        try:
            run(scenario, step, tmp_path / str(step), commits=commits)
        except BaseException as error:
            error.add_note(f"cancelled at step {step}")
            raise
    print(f"{scenario.__name__}: {steps} steps")
