"""Threads under a mock clock: virtual time waits for them, but not forever."""

from __future__ import annotations

import time

import pytest
import trio
from trio.testing import MockClock

from sarameya import Message, MessageHandler
from sarameya.testing import ClaimFeed, threads_in_virtual_time, virtual_time


class Thread(MessageHandler):
    """A handler that blocks for a moment of real time, with a limit of one second of virtual time."""

    ordering = "none"
    max_handler_time = 1

    def handle(self, message: Message) -> None:
        time.sleep(0.2)


async def test_virtual_time_waits_for_handlers_in_threads(autojump_clock: MockClock) -> None:
    feed, original = ClaimFeed("orders"), trio.to_thread.run_sync
    for _ in range(3):
        feed.send(b"")
    feed.end()
    await feed.run(Thread())
    assert feed.committed == 3
    assert (autojump_clock.autojump_threshold, trio.to_thread.run_sync) == (0, original)


async def test_overlapping_contexts_can_exit_in_any_order(autojump_clock: MockClock) -> None:
    outer, inner = threads_in_virtual_time(), threads_in_virtual_time()
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            for seconds in (0.1, 0.2):
                nursery.start_soon(trio.to_thread.run_sync, time.sleep, seconds)
    inner.__exit__(None, None, None)
    assert autojump_clock.autojump_threshold == 0


async def test_thread_that_waits_for_virtual_time_ends(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virtual_time, "_PATIENCE", 0.1)
    with threads_in_virtual_time():
        await trio.to_thread.run_sync(trio.from_thread.run, trio.sleep, 3600)
    assert trio.current_time() >= 3600


@pytest.mark.parametrize("threads", [1, 2])
async def test_real_clock_is_not_changed(threads: int) -> None:
    with threads_in_virtual_time():
        async with trio.open_nursery() as nursery:
            for _ in range(threads):
                nursery.start_soon(trio.to_thread.run_sync, time.sleep, 0)
