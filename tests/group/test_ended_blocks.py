"""`async with ConsumerGroup` blocks that end while `consume()` runs in an outer nursery. Virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock, assert_checkpoints

from sarameya import Claim, Config, ConsumerGroup, Message, Session
from sarameya.embedded import EmbeddedCluster
from sarameya.protocol.versions import Api
from sarameya.testing import run_inline
from tests.group.kit import Recorder, committed, deadline, fill, orders


class Boom(Exception):
    pass


def new_group(cluster: EmbeddedCluster, **options: Any) -> ConsumerGroup:
    config = Config(offset_initial="oldest", **options)
    return ConsumerGroup(cluster.bootstrap_servers, "g", config, transport=cluster.transport, run_sync=run_inline)


async def consume(group: ConsumerGroup, handler: Recorder, ended: list[BaseException | None]) -> None:
    try:
        await group.consume(["orders"], handler)
    except BaseException as error:
        ended.append(error)
        raise
    else:
        ended.append(None)


def nothing() -> None:
    pass


def boom() -> None:
    raise Boom


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("last", [nothing, boom])
async def test_fault_43_end_of_the_block_ends_consume_in_order(
    autojump_clock: MockClock, last: Callable[[], None], strategy: str
) -> None:
    async def slowly(session: Session, claim: Claim, message: Message) -> None:
        await trio.sleep(0.1)

    ended: list[BaseException | None] = []
    async with orders() as cluster, deadline(60) as nursery:
        fill(cluster, 10)
        handler = Recorder(slowly)
        try:
            async with new_group(cluster, autocommit_interval=600.0, rebalance_strategies=(strategy,)) as group:
                nursery.start_soon(consume, group, handler, ended)
                await handler.received(5)
                last()
        except Boom:
            assert last is boom
        assert ended == [None], "consume() has returned when the block has ended"
        assert handler.calls == ["setup", "claim orders-0", "end orders-0", "cleanup"]
        assert committed(cluster) == {"orders-0": len(handler.messages)}
        assert cluster.describe_group("g").members == ()


async def test_fault_43_cancelled_block_ends_consume_in_order(autojump_clock: MockClock) -> None:
    ended: list[BaseException | None] = []
    async with orders() as cluster, deadline(60) as nursery:
        fill(cluster, 10)
        handler = Recorder()
        with trio.CancelScope() as scope:
            async with new_group(cluster, autocommit_interval=600.0) as group:
                nursery.start_soon(consume, group, handler, ended)
                await handler.received(10)
                scope.cancel()
                await trio.sleep_forever()
        assert (ended, committed(cluster)) == ([None], {"orders-0": 10})
        assert cluster.describe_group("g").members == ()


async def test_block_and_consume_cancelled_together_end_in_order(autojump_clock: MockClock) -> None:
    ended: list[BaseException | None] = []
    async with orders() as cluster, deadline(60):
        fill(cluster, 10)
        handler = Recorder()
        async with trio.open_nursery() as nursery:
            async with new_group(cluster, autocommit_interval=600.0) as group:
                nursery.start_soon(consume, group, handler, ended)
                await handler.received(10)
                nursery.cancel_scope.cancel()
                await trio.sleep_forever()
        assert len(ended) == 1
        assert committed(cluster) == {"orders-0": 10}
        assert cluster.describe_group("g").members == ()


async def test_block_ending_while_connecting_ends_at_once(autojump_clock: MockClock) -> None:
    ended: list[BaseException | None] = []
    async with orders() as cluster, deadline(60) as nursery:
        cluster.freeze_broker(0)
        async with new_group(cluster) as group:
            nursery.start_soon(consume, group, Recorder(), ended)
            await trio.sleep(1)
        assert ended == [None]
        assert trio.current_time() < 2.0


async def test_group_closed_before_it_consumes_contacts_no_broker(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline(60):
        cluster.freeze_broker(0)
        async with new_group(cluster) as group:
            group.close_nowait()
            await group.consume(["orders"], Recorder())
        assert trio.current_time() < 2.0


async def test_block_end_is_bounded_with_a_silent_coordinator(autojump_clock: MockClock) -> None:
    ended: list[BaseException | None] = []
    async with orders() as cluster, deadline(60) as nursery:
        handler = Recorder()
        async with new_group(cluster, close_timeout=5.0) as group:
            nursery.start_soon(consume, group, handler, ended)
            await handler.until(lambda: bool(handler.sessions))
            cluster.drop_next(Api.LEAVE_GROUP, None, hang_up=False)
            began = trio.current_time()
        assert ended == [None]
        assert trio.current_time() - began <= 5.0 + 2.0


async def test_consume_of_a_closed_group_lets_other_tasks_run(autojump_clock: MockClock) -> None:
    """Otherwise a loop around `consume()`, as users of sarama write it, would block the event loop forever."""
    async with orders() as cluster, new_group(cluster) as group:
        group.close_nowait()
        with assert_checkpoints():
            await group.consume(["orders"], Recorder())
