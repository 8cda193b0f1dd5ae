"""The tasks that handle the messages of one claim: one that reads, and one for each lane that has messages.

A message is finished once `handle` has returned; then it is marked. When the claim stops, messages that wait are
dropped, and those that are being handled may end within `Config.claim_grace`. The first failure cancels the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Any

import trio

from sarameya.group.claim import Claim
from sarameya.group.delivery.time_slices import TimeSlice
from sarameya.group.session import Session
from sarameya.handling.calls import Calls
from sarameya.handling.lanes import Lanes
from sarameya.handling.options import Ordering, Retry
from sarameya.model import Message
from sarameya.observe import Retrying
from sarameya.protocol.backoff import Backoff
from sarameya.status import Activity


class Stopped(Exception):
    """The claim has stopped: a message that is not being handled is left to the next owner."""


class ClaimWork:
    """The work on one claim.

    Args:
        session: The claim's session.
        claim: The claim.
        calls: Calls `handle`.
        ordering: Which messages wait for each other.
        retry: Retries of messages that fail.
        slots: A token for each message that is being handled, shared by all claims of the handler.
        limit: Maximum number of unfinished messages of this claim, those that wait included.
    """

    def __init__(
        self,
        session: Session,
        claim: Claim,
        calls: Calls,
        ordering: Ordering,
        retry: Retry,
        slots: trio.CapacityLimiter,
        limit: int,
    ) -> None:
        self._session = session
        self._claim = claim
        self._calls = calls
        self._lanes = Lanes(ordering)
        self._retry = retry
        self._backoff = Backoff(retry.backoff, retry.backoff_max)
        self._slots = slots
        self._limit = limit
        self._waits: set[trio.CancelScope] = set()

    async def run(self) -> None:
        """Handle the claim's messages until it stops.

        Raises:
            Exception: The exception of a message that could not be handled; an ExceptionGroup for several.
        """
        try:
            async with trio.open_nursery() as nursery:
                async for message in self._claim.concurrently(self._limit):
                    if (lane := self._lanes.add(message)) is not None:
                        nursery.start_soon(self._work, lane)
                for scope in self._waits:
                    scope.cancel()
        except ExceptionGroup as group:
            if len(group.exceptions) == 1:
                raise group.exceptions[0] from None
            raise

    async def _work(self, lane: Hashable) -> None:
        """Handle the messages of a lane, one after the other, until it has none."""
        time_slice = self._claim._new_slice()
        has_more = True
        try:
            while has_more:
                message = self._lanes.first(lane)
                await self._handle(message, time_slice)
                self._finish(message)
                has_more = self._lanes.finish(lane)
        except Stopped:
            pass
        except Exception:
            self._claim.report.failed_offset = message.offset
            raise

    def _finish(self, message: Message) -> None:
        # The partition may have been revoked while a thread worked on: its next owner handles the message again.
        with suppress(ValueError):
            self._session.mark_message(message)

    async def _handle(self, message: Message, time_slice: TimeSlice) -> None:
        """Handle a message, with retries.

        Raises:
            Stopped: The claim has stopped before the message was handled.
            Exception: The exception of the last attempt.
        """
        attempt, began = 1, trio.current_time()
        while True:
            await self._begin(time_slice)
            try:
                await self._calls.call(message)
                return
            except Exception as error:
                if attempt >= self._retry.attempts or not _is_one_of(error, self._retry.on):
                    raise
                cause = f"{type(error).__name__}: {error}"
            finally:
                time_slice.release_messages()
                self._slots.release()
            delay = self._backoff.delay(attempt)
            what = f"{message.topic_partition} offset {message.offset}"
            elapsed = trio.current_time() - began
            self._session.tell(Retrying(what, attempt, elapsed, delay, cause, kind="message"))
            attempt += 1
            with self._claim.report.doing(
                Activity.RETRYING, f"{what}: {cause}", attempt=attempt, attempts=self._retry.attempts
            ):
                await self._wait(trio.sleep, delay)

    async def _begin(self, time_slice: TimeSlice) -> None:
        """Wait for a slot, which the caller has to release, and for a time slice.

        Raises:
            Stopped: The claim has stopped.
        """
        await self._wait(self._slots.acquire)
        try:
            await self._wait(time_slice.start)
            if self._claim.has_ended:
                raise Stopped
        except BaseException:
            time_slice.release_messages()
            self._slots.release()
            raise

    async def _wait(self, wait: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Wait for something else than the message's own work.

        Raises:
            Stopped: The claim has stopped.
        """
        if self._claim.has_ended:
            raise Stopped
        with trio.CancelScope() as scope:
            self._waits.add(scope)
            try:
                await wait(*args)
            finally:
                self._waits.discard(scope)
        if scope.cancelled_caught:
            raise Stopped


def _is_one_of(error: Exception, kinds: type[Exception] | tuple[type[Exception], ...]) -> bool:
    """Return whether an exception is of these kinds; for an ExceptionGroup, whether all of its exceptions are."""
    if isinstance(error, kinds):
        return True
    return isinstance(error, ExceptionGroup) and error.split(kinds)[1] is None
