"""A handler that blocks asyncio's loop for several session timeouts keeps its membership. Runs in real time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import attrs
import pytest

from sarameya import Message, RebalanceDeadlineError
from sarameya.asyncio import Claim, ConsumerGroupHandler, MessageHandler, Session
from sarameya.embedded import CoordinatorConfig
from sarameya.observe import Event, MembershipChanged, TaskStuck
from tests.asyncio.kit import PATIENCE, QUICK, Cluster, cluster_of, eventually, group_of, run

pytestmark = pytest.mark.alone

SESSION_TIMEOUT = 3.0
BLOCKED = 3 * SESSION_TIMEOUT


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def compute(seconds: float) -> None:
    """Hold the interpreter's lock as much as Python code can."""
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        pass


class BlockingClaimHandler(ConsumerGroupHandler):
    """Blocks at the first message of a claim."""

    def __init__(self, block: Callable[[float], None]) -> None:
        self.block = block
        self.seen: list[bytes | None] = []
        self.setups = 0

    async def setup(self, session: Session) -> None:
        self.setups += 1

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for message in claim:
            if not self.seen:
                self.block(BLOCKED)
            self.seen.append(message.value)
            session.mark_message(message)


class BlockingMessageHandler(MessageHandler):
    """Blocks at the first message."""

    def __init__(self, block: Callable[[float], None]) -> None:
        self.block = block
        self.seen: list[bytes | None] = []
        self.setups = 0

    async def setup(self, session: Session) -> None:
        self.setups += 1

    async def handle(self, message: Message) -> None:
        if not self.seen:
            self.block(BLOCKED)
        self.seen.append(message.value)


@pytest.mark.parametrize(("kind", "block"), [(BlockingClaimHandler, sleep), (BlockingMessageHandler, compute)])
def test_handler_that_blocks_the_loop_keeps_its_membership(
    kind: type[BlockingClaimHandler] | type[BlockingMessageHandler], block: Callable[[float], None]
) -> None:
    events: list[Event] = []
    config = attrs.evolve(QUICK, session_timeout=SESSION_TIMEOUT, heartbeat_interval=0.1)

    async def main() -> None:
        limits = CoordinatorConfig(min_session_timeout=1.0)
        async with cluster_of({"orders": 1}, limits) as cluster:
            await cluster.produce("orders", 0, b"a", b"b")
            handler = kind(block)
            async with group_of(cluster, config=config, observers=[events.append]) as group:
                consuming = asyncio.create_task(group.consume(["orders"], handler))
                await eventually(lambda: len(handler.seen) == 2)
                status = await group.status()
                await group.close()
                await consuming
            assert handler.seen == [b"a", b"b"]
            assert handler.setups == 1
            assert (status.generation, status.state) == (1, "STABLE")
            assert await cluster.committed("billing") == 2

    run(main)
    assert [event for event in events if isinstance(event, MembershipChanged) and event.after == "LOST"] == []


def test_rebalance_with_blocked_loop_ends_at_its_deadline() -> None:
    """The loop is blocked until another member has the partition."""
    events: list[Event] = []
    config = attrs.evolve(QUICK, rebalance_timeout=4.0, rebalance_margin=3.0, claim_grace=0.3)
    taken_over = threading.Event()

    class Blocks(ConsumerGroupHandler):
        is_blocked = False

        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for _ in claim:
                self.is_blocked = True
                assert taken_over.wait(PATIENCE)

    class TakesOver(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for _ in claim:
                taken_over.set()

    async def consume_in_another_thread(cluster: Cluster, blocks: Blocks) -> None:
        while not blocks.is_blocked:
            await asyncio.sleep(0.01)
        async with group_of(cluster, config=config) as group:
            consuming = asyncio.create_task(group.consume(["orders"], TakesOver()))
            await eventually(taken_over.is_set)
            await group.close()
            await consuming

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a")
            handler = Blocks()
            other = asyncio.create_task(asyncio.to_thread(asyncio.run, consume_in_another_thread(cluster, handler)))
            async with group_of(cluster, config=config, observers=[events.append]) as group:
                with pytest.raises(ExceptionGroup) as raised:
                    await group.consume(["orders"], handler)
            assert raised.group_contains(RebalanceDeadlineError, match="claim of orders-0 did not end")
            await other

    run(main)
    (stuck,) = (event for event in events if isinstance(event, TaskStuck))
    assert stuck.what == "claim of orders-0"
    assert "assert taken_over.wait(PATIENCE)" in stuck.stack, "the stack does not show the blocking line"
