"""Calls of `MessageHandler.handle` on asyncio's loop.

One call crosses the threads for a run of messages, which are handled one after the other: those that wait in a lane. A
run ends after a while, so that other lanes get their turn, and other tasks of the loop run. What is finished is
reported to trio's thread without waiting for the end of the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

from sarameya.asyncio.portal import Portal
from sarameya.errors import HandlerTimeoutError
from sarameya.group.handler_methods import awaited
from sarameya.handling.calls import Calls, Run
from sarameya.model import Message

_RUN_SECONDS = 0.01
"""Time after which no further message of a run is begun."""


class MessageCalls(Calls):
    """Calls of one handler's `handle`: a coroutine function runs on asyncio's loop, a plain function in worker threads.

    Args:
        handle: The function.
        threads: Maximum number of threads.
        limit: Maximum of seconds for a message; None for no limit.
        portal: The way to asyncio's thread.
        name: Name of the loop's tasks.
    """

    def __init__(
        self, handle: Callable[[Message], Any], threads: int, limit: float | None, portal: Portal, name: str
    ) -> None:
        super().__init__(handle, threads, limit)
        self._portal = portal
        self._name = name
        if not self._in_threads:
            self.most = 256

    async def call(self, run: Run) -> None:
        if self._in_threads:
            await super().call(run)
        else:
            await _LoopRun(run, self._handle, self._limit, self._portal).call(self._name)

    async def _wait_for(self, returned: Awaitable[None]) -> None:
        await self._portal.call_back(_same, returned, name=self._name)


async def _same(awaitable: Awaitable[None]) -> None:
    await awaitable


class _LoopRun:
    """A run of messages on asyncio's loop."""

    def __init__(self, run: Run, handle: Callable[[Message], Any], limit: float | None, portal: Portal) -> None:
        self._run = run
        self._handle = handle
        self._limit = limit
        self._portal = portal
        # Messages that are handled, and those of them that trio's thread has finished.
        self._handled = self._finished = 0

    async def call(self, name: str) -> None:
        """Handle the messages, and finish them. Called in trio's thread."""
        try:
            await self._portal.call_back(self._handle_all, name=name)
        finally:
            self._finish()

    def _finish(self) -> None:
        while self._finished < self._handled:
            self._finished += 1
            self._run.finish()

    async def _handle_all(self) -> None:
        run, ends = self._run, perf_counter() + _RUN_SECONDS
        for message in run.messages:
            if run.is_over() or (self._handled and perf_counter() >= ends):
                return
            await self._handle_one(run.prepare(message))
            self._handled += 1
            self._portal.put_to_trio(self._finish)

    async def _handle_one(self, message: Message) -> None:
        if self._limit is None:
            await awaited(self._handle, message)
            return
        limit = asyncio.timeout(self._limit)
        try:
            async with limit:
                await awaited(self._handle, message)
        except TimeoutError:
            if limit.expired():
                raise HandlerTimeoutError(message.topic_partition, message.offset, self._limit) from None
            raise
