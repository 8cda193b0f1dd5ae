"""Reports of blocked event loops. Real time, since virtual time does not advance in a blocked loop."""

from __future__ import annotations

import ctypes
import logging
import threading
import time
from collections.abc import Callable

import pytest
import trio

from sarameya import Config, ConsumerGroup
from sarameya.embedded import EmbeddedCluster
from sarameya.group.monitoring import loop_monitor
from sarameya.group.monitoring.loop_monitor import Blockage, LoopMonitor
from sarameya.observe import Event, LoopBlocked
from tests.group.kit import Recorder

LIMIT = 0.2


def block_here(seconds: float) -> None:
    time.sleep(seconds)


def block_with_the_lock_held(seconds: float) -> None:
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


async def blockages(block: Callable[[float], None], seconds: float) -> list[Blockage]:
    """Block a watched loop once. Return its reports."""
    found = list[Blockage]()
    monitor = LoopMonitor(LIMIT, found.append)
    with monitor.watching():
        await trio.sleep(0.01)
        block(seconds)
        await trio.sleep(0.01)
    assert monitor.last is (found[-1] if found else None)
    return found


async def test_blocked_loop_is_reported_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "sarameya"):
        (found,) = await blockages(block_here, 5 * LIMIT)
    assert found.seconds >= 5 * LIMIT
    assert found.where.endswith("in block_here")
    assert "time.sleep(seconds)" in found.stack
    assert "trio/_core" not in found.stack
    (record,) = caplog.records
    assert record.threadName == "sarameya loop monitor", "it is logged while the loop is blocked"
    assert "time.sleep(seconds)" in record.getMessage()


async def test_blockage_over_before_the_next_check_has_its_stack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread's check falls into the blockage, but before the limit is over."""
    monkeypatch.setattr(loop_monitor, "_CHECKS", 1)
    limit, found = 0.5, list[Blockage]()
    with LoopMonitor(limit, found.append).watching():
        await trio.sleep(0.5 * limit)
        block_here(1.4 * limit)
        await trio.sleep(0.01)
    assert [one.where.rpartition(" ")[2] for one in found] == ["block_here"]


async def test_blocked_loop_holding_the_lock_is_reported_without_stack() -> None:
    (found,) = await blockages(block_with_the_lock_held, 2 * LIMIT)
    assert found.seconds >= 2 * LIMIT
    assert found.stack == "" or "usleep" in found.stack


async def test_loop_that_waits_is_not_reported() -> None:
    assert await blockages(lambda seconds: None, 0.0) == []


async def test_monitor_leaves_no_thread() -> None:
    await blockages(block_here, 0.0)
    assert [thread.name for thread in threading.enumerate() if "loop monitor" in thread.name] == []


async def test_fault_41_blocking_handler_is_observable() -> None:
    events = list[Event]()
    config = Config(offset_initial="oldest", session_timeout=6.0, heartbeat_interval=0.5)  # blocked: 2 s

    async def block(*_: object) -> None:
        block_here(2.5)

    handler = Recorder(block)
    async with EmbeddedCluster({"orders": 1}) as cluster:
        cluster.produce("orders", 0, b"x")
        async with ConsumerGroup(cluster.bootstrap_servers, "g", config, observers=[events.append]) as group:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(group.consume, ["orders"], handler)
                await handler.received(1)
                while not (reports := [event for event in events if isinstance(event, LoopBlocked)]):
                    await trio.sleep(0.01)
                status = group.status()
                group.close_nowait()
            assert group.meters.loop_blocked_seconds == reports[0].seconds
    assert reports[0].seconds >= 2.5
    assert reports[0].where.endswith("in block_here")
    assert 0 <= status.blocked_ago < 60
    assert (status.blocked_seconds, status.blocked_at) == (reports[0].seconds, reports[0].where)
