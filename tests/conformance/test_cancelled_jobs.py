"""Landings that are cancelled while Spark is at their rows: early in its job, in the middle, late. The next owner lands
what did not, and whatever the cancelled job still does changes nothing. Behind Spark Connect, real time."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Landing, Phase
from tests.conformance.contenders import Contender, Place, each, rows_by_slow_spark, rows_by_spark
from tests.conformance.lives import prove_leftovers_unused, run_session

ROWS = 40
"""Of the landing that is cancelled: Spark takes two seconds for them."""
DELAYS = (0.2, 0.6, 1.2)
"""Seconds after it was staged."""


@each("delta", "iceberg", exhaustive=["iceberg"])
async def test_batch_cancelled_in_sparks_job_is_landed_by_the_next_owner(contender: Contender, place: Place) -> None:
    began, end = trio.current_time(), 1
    quick = Shaping(transform=rows_by_spark)
    async with contender.engine(place) as engine:
        await run_session(contender, place, end, shape=quick)  # which makes the table
        for delay in DELAYS:
            end += ROWS
            await cancelled_after(delay, contender, place, end)
            end += 1
            await run_session(contender, place, end, shape=quick)
        await engine.run(lambda spark, _: prove_leftovers_unused(contender, place, spark, end), tag="proof")
    print(f"{contender.name}: {len(DELAYS)} cancellations in {trio.current_time() - began:.0f} s")


async def cancelled_after(delay: float, contender: Contender, place: Place, end: int) -> None:
    """A life that ends so many seconds after its landing was staged, when Spark cannot be done."""
    staged, told = trio.Event(), list[Phase]()

    def on_phase(phase: Phase, landings: Sequence[Landing]) -> None:
        told.append(phase)
        if phase is Phase.STAGED:
            trio.from_thread.run_sync(staged.set)

    async def cancel() -> None:
        await staged.wait()
        await trio.sleep(delay)
        assert told in ([Phase.STAGED], [Phase.STAGED, Phase.READY]), "it is within Spark's job"
        scope.cancel()

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel)
            await run_session(contender, place, end, on_phase, shape=Shaping(transform=rows_by_slow_spark))
    assert scope.cancelled_caught, "nothing was cancelled"
