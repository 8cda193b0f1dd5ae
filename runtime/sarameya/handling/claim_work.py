"""The tasks that handle the messages of one claim: one that reads, and one for each lane that has messages.

A message is finished once `handle` has returned; then it is marked. When the claim stops, messages that wait are
dropped, and those that are being handled may end within `Config.claim_grace`. The first failure cancels the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Any, TypeVar

import attrs
import trio

from sarameya.errors import DecodeError
from sarameya.formats.errors import NoSchemaError
from sarameya.formats.message_decoder import MessageDecoder
from sarameya.group.claim import Claim
from sarameya.group.delivery.time_slices import TimeSlice
from sarameya.group.session import Session
from sarameya.handling.calls import Calls
from sarameya.handling.circuit_breaker import Circuit
from sarameya.handling.failure_policy import FailurePolicy
from sarameya.handling.lanes import Lanes
from sarameya.handling.letters import FailedMessage, Origin
from sarameya.handling.options import Ordering
from sarameya.model import Message
from sarameya.observe import Retrying
from sarameya.protocol.backoff import Backoff
from sarameya.status import Activity, held_text

T = TypeVar("T")

_SENDING = Backoff(1.0, 30.0)
"""Delays between attempts to store a failed message elsewhere, or to look up a schema."""


class Stopped(Exception):
    """The claim has stopped: a message that is not being handled is left to the next owner."""


@attrs.frozen(slots=True)
class HandlerRun:
    """State of a handler for the length of one `consume()`, shared by all its claims.

    Attributes:
        decoder: Decodes keys and values.
        calls: Calls `handle`.
        policy: What happens to messages that fail.
        ordering: Which messages wait for each other.
        circuit: The circuit breaker.
        slots: A token for each message that is being handled.
    """

    decoder: MessageDecoder
    calls: Calls
    policy: FailurePolicy
    ordering: Ordering
    circuit: Circuit
    slots: trio.CapacityLimiter


class ClaimWork:
    """The work on one claim.

    Args:
        session: The claim's session.
        claim: The claim.
        run: State of the handler.
        limit: Maximum number of unfinished messages of this claim, those that wait included.
    """

    def __init__(self, session: Session, claim: Claim, run: HandlerRun, limit: int) -> None:
        self._session = session
        self._claim = claim
        self._decoder = run.decoder
        self._calls = run.calls
        self._policy = run.policy
        self._lanes = Lanes(run.ordering)
        self._circuit = run.circuit
        self._slots = run.slots
        self._limit = limit
        self._waits: set[trio.CancelScope] = set()

    async def run(self) -> None:
        """Handle the claim's messages until it stops.

        Raises:
            Exception: The exception of a message that could not be handled; an ExceptionGroup for several.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_end)
                async for message in self._claim.concurrently(self._limit):
                    if not await self._is_due(message):
                        break
                    if (lane := self._lanes.add(message)) is not None:
                        nursery.start_soon(self._work, lane)
        except ExceptionGroup as group:
            if len(group.exceptions) == 1:
                raise group.exceptions[0] from None
            raise

    async def _watch_end(self) -> None:
        await self._claim.wait_ended()
        for scope in self._waits:
            scope.cancel()

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

    async def _is_due(self, message: Message) -> bool:
        """Wait until a message of a retry topic is due. Return False if the claim stops before."""
        seconds = self._policy.seconds_until_due(Origin.of(message))
        if seconds > 0:
            reason = f"{self._name(message)} is due in {seconds:.0f} s"
            with suppress(Stopped), self._claim.report.doing(Activity.DELAYED, reason):
                await self._wait(trio.sleep, seconds)
        return not self._claim.has_ended

    async def _handle(self, message: Message, time_slice: TimeSlice) -> None:
        """Handle a message, or store it elsewhere if that fails.

        Raises:
            Stopped: The claim has stopped before the message was finished.
            RegistryError: The message's schema cannot be looked up, until a person changes something.
            Exception: The exception of the last attempt, if there is no other place for the message.
        """
        origin = Origin.of(message)
        original, attempt, began, lookups = origin.restore(message), 1, trio.current_time(), 0
        while True:
            failure = await self._attempt(message, original, time_slice)
            if failure is None:
                return
            if isinstance(failure, NoSchemaError):
                if failure.error.permanent:
                    raise failure.error
                # The message is not at fault, so this is none of its attempts.
                lookups += 1
                what = f"looking up the schema of {self._name(message)}"
                await self._wait_again("registry", what, failure.error, lookups, began, _SENDING.delay(lookups))
                continue
            delay = None if self._circuit.is_open else self._policy.delay(failure, attempt)
            if delay is not None:
                what, attempts = self._name(message), self._policy.attempts
                await self._wait_again("message", what, failure, attempt, began, delay, attempts)
            elif isinstance(failure, DecodeError) or not self._circuit.failed():
                break
            attempt += 1
        failed = FailedMessage(original, failure, origin.attempts + attempt, self._session.group)
        await self._divert(message, failed)

    async def _attempt(self, read: Message, message: Message, time_slice: TimeSlice) -> Exception | None:
        """Wait for a slot, for the circuit breaker and for a time slice, then decode a message and handle it.

        Returns:
            The failure; None if the message was handled.

        Raises:
            Stopped: The claim has stopped before.
        """
        is_probe = False
        await self._wait(self._slots.acquire)
        try:
            if self._circuit.is_open:
                with self._claim.report.doing(Activity.RETRYING, f"{self._name(read)}: the circuit breaker is open"):
                    await self._wait(self._circuit.wait)
                is_probe = self._circuit.is_open
            await self._wait(time_slice.start)
            if self._claim.has_ended:
                raise Stopped
            try:
                # Each attempt gets an object of its own: the last one may have changed the value.
                await self._calls.call(await self._decode(message))
            except Stopped:
                raise
            except Exception as error:  # noqa: BLE001 - the policy decides
                return error
            self._circuit.succeeded()
            return None
        finally:
            time_slice.release_messages()
            self._slots.release()
            if is_probe:
                self._circuit.end_probe()

    async def _decode(self, message: Message) -> Message[Any, Any]:
        if self._decoder.looks_up:
            return await self._wait(self._decoder.decode, message)
        return await self._decoder.decode(message)

    async def _divert(self, message: Message, failed: FailedMessage) -> None:
        """Send a failed message to its next place, until that succeeds.

        Raises:
            Stopped: The claim has stopped before.
            Exception: The message's failure, if there is no place for it.
        """
        attempt, began = 1, trio.current_time()
        what = f"storing the failed message {self._name(message)}"
        # Reported while it is sent, too: the producer itself retries for `Config.delivery_timeout`.
        doing = self._claim.report.doing(Activity.IN_HANDLER, what)
        while True:
            try:
                with doing:
                    if await self._policy.divert(message, failed):
                        return
            except Exception as error:  # noqa: BLE001 - whatever it is, the message must not be lost
                delay = _SENDING.delay(attempt)
                reason = f"{what}: {type(error).__name__}: {error}"
                doing = self._claim.report.doing(Activity.RETRYING, reason, attempt=attempt + 1)
                await self._wait_again("dead_letter", what, error, attempt, began, delay)
                attempt += 1
            else:
                raise failed.error

    async def _wait_again(
        self, kind: str, what: str, error: Exception, attempt: int, began: float, delay: float, attempts: int = 0
    ) -> None:
        """Report a failed attempt, and wait before the next one.

        Raises:
            Stopped: The claim has stopped.
        """
        cause = f"{type(error).__name__}: {error}"
        self._session.tell(Retrying(what, attempt, trio.current_time() - began, delay, cause, kind=kind))
        with self._claim.report.doing(Activity.RETRYING, f"{what}: {cause}", attempt=attempt + 1, attempts=attempts):
            await self._wait(trio.sleep, delay)

    def _name(self, message: Message) -> str:
        return held_text(message.topic_partition, message.offset, message.offset)

    async def _wait(self, wait: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Wait for something else than the message's own work. Return its result.

        Raises:
            Stopped: The claim has stopped.
        """
        if self._claim.has_ended:
            raise Stopped
        with trio.CancelScope() as scope:
            self._waits.add(scope)
            try:
                return await wait(*args)
            finally:
                self._waits.discard(scope)
        raise Stopped
