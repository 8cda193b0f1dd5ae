"""Landings that are cancelled while Spark processes their rows: early in its job, in the middle, late.

The next owner lands the rest, and later effects of the cancelled job change nothing. With Spark Connect, in real time.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio

from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Landing, Phase
from tests.conformance.contenders import Contender, Place, each, rows_by_slow_spark, rows_by_spark
from tests.conformance.sink_sessions import prove_leftovers_unused, run_session

pytestmark = pytest.mark.landing(what="cancelled")

ROWS = 40
"""Number of rows in the landing that is cancelled; Spark needs two seconds for them."""
DELAYS = (0.2, 0.6, 1.2)
"""Times of the cancellation, in seconds after the batch was staged."""


@each("delta", "iceberg", exhaustive=["iceberg"])
async def test_batch_cancelled_in_spark_job_is_landed_by_next_owner(contender: Contender, place: Place) -> None:
    began, end = trio.current_time(), 1
    quick = Shaping(transform=rows_by_spark)
    async with contender.engine(place) as engine:
        await run_session(contender, place, end, shape=quick)  # creates the table
        for delay in DELAYS:
            end += ROWS
            await run_cancelled_after(delay, contender, place, end)
            end += 1
            await run_session(contender, place, end, shape=quick)
        await engine.run(lambda spark, _: prove_leftovers_unused(contender, place, spark, end), tag="proof")
    print(f"{contender.name}: {len(DELAYS)} cancellations in {trio.current_time() - began:.0f} s")


async def run_cancelled_after(delay: float, contender: Contender, place: Place, end: int) -> None:
    """Run a session that is cancelled `delay` seconds after its batch was staged, before Spark has finished."""
    staged, reported = trio.Event(), list[Phase]()

    def on_phase(phase: Phase, landings: Sequence[Landing]) -> None:
        reported.append(phase)
        if phase is Phase.STAGED:
            trio.from_thread.run_sync(staged.set)

    async def cancel() -> None:
        await staged.wait()
        await trio.sleep(delay)
        assert reported in ([Phase.STAGED], [Phase.STAGED, Phase.READY]), "Spark's job is running"
        scope.cancel()

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel)
            await run_session(contender, place, end, on_phase, shape=Shaping(transform=rows_by_slow_spark))
    assert scope.cancelled_caught, "no cancellation"
