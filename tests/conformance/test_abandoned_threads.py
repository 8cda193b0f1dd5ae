"""Landings cancelled in their thread, exactly at a phase: some end at once, some block until others have landed.

Nothing that the thread does afterwards has an effect. Real threads, real time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

import attrs
import pytest
import trio

from sarameya_handlers.spark.tables.table import Landing, Phase
from tests.conformance.contenders import CONTENDERS, Contender, Place, each
from tests.conformance.sink_sessions import MOST_SECONDS, prove_leftovers_unused, run_session

pytestmark = pytest.mark.landing(what="cancelled")


@attrs.define
class Hook:
    """Cancels a scope at a phase, in the landing's thread. With `hangs`, the thread blocks until `release` is set."""

    scope: trio.CancelScope
    phase: Phase
    hangs: bool
    has_fired: bool = False
    release: threading.Event = attrs.field(factory=threading.Event)
    ended: threading.Event = attrs.field(factory=threading.Event)
    """Set when the thread has passed the phase."""

    def __call__(self, phase: Phase, landings: Sequence[Landing]) -> None:
        if phase is self.phase and not self.has_fired:
            self.has_fired = True
            trio.from_thread.run_sync(self.scope.cancel)
            if self.hangs:
                assert self.release.wait(MOST_SECONDS)
            self.ended.set()


@each(*CONTENDERS, exhaustive=["delta", "iceberg"])
async def test_batch_cancelled_in_thread_is_landed_by_next_owner(contender: Contender, place: Place) -> None:
    """The second session lands everything, while the thread of the first one still hangs or has just ended."""
    began, end = trio.current_time(), 0
    phases = [phase for phase in (Phase.STAGED, Phase.READY, Phase.WRITTEN, Phase.LINKED) if phase in contender.phases]
    async with contender.engine(place) as engine:
        for phase in phases:
            for hangs in (False, True):
                end += 4
                hook = await run_cancelled_at(phase, hangs, partial(run_session, contender, place, end))
                await run_session(contender, place, end)
                hook.release.set()
                await trio.to_thread.run_sync(hook.ended.wait, MOST_SECONDS)
                end += 1
                await run_session(contender, place, end)
        await engine.run(lambda spark, _: prove_leftovers_unused(contender, place, spark, end), tag="proof")
    print(f"{contender.name}: {2 * len(phases)} cancellations in {trio.current_time() - began:.0f} s")


async def run_cancelled_at(phase: Phase, hangs: bool, run_once: Callable[..., object]) -> Hook:
    """Run a session that is cancelled during its landing. Return the hook; a thread that hangs may still run."""
    with trio.CancelScope() as scope:
        hook = Hook(scope, phase, hangs)
        await run_once(on_phase=hook)  # type: ignore[misc]
    assert scope.cancelled_caught, f"no cancellation at {phase}"
    return hook
