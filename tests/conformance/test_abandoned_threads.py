"""Landings that are cancelled in threads, exactly at a phase: some end at once, some hang until others have landed.
What the thread does afterwards changes nothing. Real threads, real time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

import attrs
import trio

from sarameya_handlers.spark.tables.table import Landing, Phase
from tests.conformance.contenders import CONTENDERS, Contender, Place, each
from tests.conformance.lives import MOST_SECONDS, prove_leftovers_unused, run_session


@attrs.define
class Hook:
    """Cancels at a phase, in the landing's thread; where it `hangs`, the thread stands still until it is let go."""

    scope: trio.CancelScope
    phase: Phase
    hangs: bool
    has_struck: bool = False
    let_go: threading.Event = attrs.field(factory=threading.Event)
    ended: threading.Event = attrs.field(factory=threading.Event)
    """The thread has come as far as it does."""

    def __call__(self, phase: Phase, landings: Sequence[Landing]) -> None:
        if phase is self.phase and not self.has_struck:
            self.has_struck = True
            trio.from_thread.run_sync(self.scope.cancel)
            if self.hangs:
                assert self.let_go.wait(MOST_SECONDS)
            self.ended.set()


@each(*CONTENDERS, exhaustive=["delta", "iceberg"])
async def test_batch_cancelled_in_its_thread_is_landed_by_the_next_owner(contender: Contender, place: Place) -> None:
    """The second life of each case lands all, while the first one's thread still hangs or has just ended."""
    began, end = trio.current_time(), 0
    phases = [phase for phase in (Phase.STAGED, Phase.READY, Phase.WRITTEN, Phase.LINKED) if phase in contender.phases]
    async with contender.engine(place) as engine:
        for phase in phases:
            for hangs in (False, True):
                end += 4
                hook = await cancelled_at(phase, hangs, partial(run_session, contender, place, end))
                await run_session(contender, place, end)
                hook.let_go.set()
                await trio.to_thread.run_sync(hook.ended.wait, MOST_SECONDS)
                end += 1
                await run_session(contender, place, end)
        await engine.run(lambda spark, _: prove_leftovers_unused(contender, place, spark, end), tag="proof")
    print(f"{contender.name}: {2 * len(phases)} cancellations in {trio.current_time() - began:.0f} s")


async def cancelled_at(phase: Phase, hangs: bool, life: Callable[..., object]) -> Hook:
    """A life that ends when its landing is there; it does not wait for a thread that hangs."""
    with trio.CancelScope() as scope:
        hook = Hook(scope, phase, hangs)
        await life(on_phase=hook)  # type: ignore[misc]
    assert scope.cancelled_caught, f"nothing was cancelled at {phase}"
    return hook
