"""A member that is cancelled at any step commits what it has marked, and leaves its group. Virtual time."""

from __future__ import annotations

import math

import pytest
import trio
from trio.testing import MockClock

from sarameya import Config, ConsumerGroup
from sarameya.embedded import EmbeddedCluster
from sarameya.protocol.fetch.byte_budget import ByteBudget
from sarameya.testing import run_inline
from tests.group.kit import Recorder, assert_given_back, budget_of, committed, fill, orders


class CancelAtStep(trio.abc.Instrument):
    """An instrument that cancels its scope after the given number of steps of the event loop."""

    def __init__(self, step: float) -> None:
        self.scope: trio.CancelScope | None = None
        self.steps = 0
        self._step = step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.scope is not None:
            self.steps += 1
            if self.steps == self._step:
                self.scope.cancel()


async def live_once(cluster: EmbeddedCluster, handler: Recorder, canceller: CancelAtStep) -> None:
    """Run a member that reads twenty messages of two partitions and closes, under the canceller's scope."""
    budget = ByteBudget(1)
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as canceller.scope:
            config = Config(offset_initial="oldest")
            async with ConsumerGroup(
                cluster.bootstrap_servers, "g", config, transport=cluster.transport, run_sync=run_inline
            ) as group:
                budget = budget_of(group)

                async def close_when_read() -> None:
                    await handler.received(20)
                    group.close_nowait()

                nursery.start_soon(close_when_read)
                await group.consume(["orders"], handler)
        canceller.scope = None
        nursery.cancel_scope.cancel()
    assert_given_back(budget)


def run(step: float) -> tuple[int, Recorder, dict[str, int]]:
    """Run a member, cancelled at `step`, and check that it has left. Return its steps, its handler and its commits."""
    canceller = CancelAtStep(step)

    async def main() -> tuple[int, Recorder, dict[str, int]]:
        handler = Recorder()
        async with orders(2) as cluster:
            fill(cluster, 10, 0)
            fill(cluster, 10, 1)
            began = trio.current_time()
            with trio.fail_after(100):
                await live_once(cluster, handler, canceller)
            assert trio.current_time() - began <= 25, "closing is bounded"
            await trio.testing.wait_all_tasks_blocked()
            members = cluster.describe_group("g").members
            assert not members, f"cancelled at step {step}: {members} is still in the group"
            return canceller.steps, handler, committed(cluster)

    return trio.run(main, clock=MockClock(autojump_threshold=0), instruments=[canceller])


def test_cancellation_at_every_step_leaves_no_member_behind() -> None:
    steps, handler, commits = run(math.inf)
    assert (len(handler.messages), commits) == (20, {"orders-0": 10, "orders-1": 10})
    assert steps > 100
    for step in range(1, steps + 1):
        _, handler, commits = run(step)
        for partition in (0, 1):
            read = len(handler.offsets("orders", partition))
            # Committed is at most what was read, and all that was marked before the session ended.
            assert commits.get(f"orders-{partition}", 0) == read, f"cancelled at step {step}"
        assert handler.calls.count("setup") == handler.calls.count("cleanup"), f"cancelled at step {step}"


@pytest.mark.parametrize("step", [1, 2])
def test_the_canceller_does_cancel(step: int) -> None:
    steps, handler, _ = run(step)
    assert steps >= step
    assert handler.messages == []
