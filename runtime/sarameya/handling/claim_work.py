"""The tasks that handle the messages of one claim: one that reads, and one for each call of the handler.

A message is finished once `handle` has returned; then it is marked. When the claim stops, messages that wait are
dropped, and those that are being handled may end within `Config.claim_grace`. The first failure cancels the others.

Messages are handled in batches, mostly of one message. A batch that fails for good is handled message by message, so
that only the messages at fault are sent elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from contextvars import Context, copy_context
from datetime import UTC, datetime
from typing import Any, TypeVar

import attrs
import trio

from sarameya.errors import ConfigError, DecodeError
from sarameya.formats.errors import NoSchemaError
from sarameya.formats.message_decoder import MessageDecoder
from sarameya.group.claim import Claim
from sarameya.group.session import Session
from sarameya.handling.batches import Batches
from sarameya.handling.calls import Calls, NoThreadError
from sarameya.handling.circuit_breaker import Circuit
from sarameya.handling.failure_policy import FailurePolicy
from sarameya.handling.lanes import Batch, Lanes
from sarameya.handling.letters import FailedMessage, error_text
from sarameya.handling.options import Ordering
from sarameya.handling.slots import ClaimSlots, Slot, Slots
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
        slots: Slots for calls of `handle`.
    """

    decoder: MessageDecoder
    calls: Calls
    policy: FailurePolicy
    ordering: Ordering
    circuit: Circuit
    slots: Slots


class ClaimWork:
    """The work on one claim.

    Args:
        session: The claim's session.
        claim: The claim.
        run: State of the handler.
        limit: Maximum number of unfinished messages of this claim, those that wait included.
        at_once: Maximum number of calls for this claim at the same time; None for no limit but that of all claims.
        batches: Collects the messages of a call; None if each message has a call of its own.
    """

    def __init__(
        self, session: Session, claim: Claim, run: HandlerRun, limit: int, at_once: int | None, batches: Batches | None
    ) -> None:
        self._session = session
        self._claim = claim
        self._decoder = run.decoder
        self._calls = run.calls
        self._policy = run.policy
        self._lanes = Lanes(run.ordering, None if batches is None else batches.group_of)
        self._batches = batches
        self._has_batches = trio.Event()
        self._circuit = run.circuit
        self._slots = ClaimSlots(run.slots, at_once or run.slots.count, self._start)
        self._time = claim._handler_time
        self._context = copy_context()
        self._messages = claim.concurrently(limit)
        self._waits: set[trio.CancelScope] = set()

    async def run(self) -> None:
        """Handle the claim's messages until it stops.

        Raises:
            Exception: The exception of a message that could not be handled; an ExceptionGroup for several.
        """
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._watch_end)
                if self._batches is not None:
                    self._nursery.start_soon(self._complete_by_age, self._batches)
                try:
                    await self._read()
                finally:
                    self._slots.close()
        except ExceptionGroup as group:
            if len(group.exceptions) == 1:
                raise group.exceptions[0] from None
            raise

    async def _read(self) -> None:
        async for message in self._messages:
            if not await self._is_due(message):
                break
            if self._batches is None:
                self._begin([message])
            elif (batch := self._batches.add(message, trio.current_time())) is not None:
                self._begin(batch)
            else:
                self._has_batches.set()
                self._complete_if_full(self._batches)

    async def _watch_end(self) -> None:
        await self._claim.wait_ended()
        for scope in self._waits:
            scope.cancel()

    async def _complete_by_age(self, batches: Batches) -> None:
        """Begin batches that are complete by their age, until the claim has stopped."""
        with suppress(Stopped):
            while True:
                if (due := batches.due) is None:
                    self._has_batches = trio.Event()
                    await self._wait(self._has_batches.wait)
                else:
                    await self._wait(trio.sleep_until, due)
                    for batch in batches.pop_due(trio.current_time()):
                        self._begin(batch)

    def _complete_if_full(self, batches: Batches) -> None:
        """Begin batches that cannot grow, since reading waits for messages to finish, if calls are free."""
        while self._messages._is_full() and self._lanes.count < batches.at_once:
            if (batch := batches.pop_largest()) is None:
                return
            self._begin(batch)

    def _begin(self, batch: Batch) -> None:
        if (lane := self._lanes.add(batch)) is not None:
            self._slots.request(lane)

    def _start(self, lane: Hashable) -> None:
        # The task that calls this may be in the context of a message.
        self._context.run(self._nursery.start_soon, self._work, lane)

    async def _work(self, lane: Hashable) -> None:
        """Handle the first batch of a lane, then those of other lanes, as long as this task has a slot."""
        slot = Slot(self._slots)
        try:
            while lane is not None:
                await self._handle(self._lanes.first(lane), slot)
                if self._lanes.finish(lane):
                    self._slots.request(lane)
                if self._batches is not None:
                    self._complete_if_full(self._batches)
                # Context variables that a call has set are not for the next call: that gets a task of its own.
                lane = slot.next() if _is_same(copy_context(), self._context) else None
        except Stopped:
            pass
        except BaseException:
            self._slots.close()
            raise
        finally:
            slot.release()

    def _finish(self, batch: Batch) -> None:
        # The partition may have been revoked while a thread worked on: its next owner handles the messages again.
        with suppress(ValueError):
            for message in batch:
                self._session.mark_message(message)

    async def _is_due(self, message: Message) -> bool:
        """Wait until a message of a retry topic is due. Return False if the claim stops before."""
        due = self._policy.due_time(message)
        if due is not None and (seconds := self._policy.seconds_until(due)) > 0:
            reason = f"{self._name([message])} is due at {datetime.fromtimestamp(due, UTC):%Y-%m-%d %H:%M:%S} UTC"
            with suppress(Stopped), self._claim.report.doing(Activity.DELAYED, reason):
                await self._wait(trio.sleep, seconds)
        return not self._claim.has_ended

    async def _handle(self, batch: Batch, slot: Slot) -> None:
        """Handle a batch, or store its messages elsewhere if that fails. Then they are finished.

        Args:
            batch: The messages.
            slot: The task's slot. The task has none after a failure, until the next attempt.

        Raises:
            Stopped: The claim has stopped before the messages were finished.
            RegistryError: The schema of a message cannot be looked up, until a person changes something.
            Exception: The exception of the last attempt, if there is no other place for the message.
        """
        attempt, began, lookups = 1, trio.current_time(), 0
        while (failure := await self._attempt(batch, slot)) is not None:
            slot.release()
            if isinstance(failure, NoSchemaError):
                if failure.error.permanent:
                    raise self._failed(batch, failure.error)
                # The message is not at fault, so this is none of its attempts.
                lookups += 1
                what = f"looking up the schema of {self._name(batch)}"
                await self._wait_again("registry", what, failure.error, lookups, began, _SENDING.delay(lookups))
                continue
            if len(batch) > 1 and (undecodable := self._undecodable(batch, failure)):
                await self._handle(undecodable, slot)
                batch = [message for message in batch if message not in undecodable]
                continue
            delay = None if self._circuit.is_open else self._policy.delay(failure, attempt)
            if delay is not None:
                what, attempts = self._name(batch), self._policy.attempts
                await self._wait_again("message", what, failure, attempt, began, delay, attempts)
            elif len(batch) > 1 or isinstance(failure, DecodeError) or not self._circuit.failed():
                await self._give_up(batch, failure, attempt, slot)
                return
            attempt += 1
        self._finish(batch)

    async def _give_up(self, batch: Batch, failure: Exception, attempts: int, slot: Slot) -> None:
        """Store a message elsewhere, whose attempts are used up. The messages of a larger batch are handled alone."""
        if len(batch) > 1:
            for message in batch:
                await self._handle([message], slot)
            return
        if isinstance(failure, NoThreadError):  # the message is not at fault, and the member can handle no other one
            raise self._failed(batch, failure)
        origin = self._policy.origin(batch[0])
        failed = FailedMessage(origin.restore(batch[0]), failure, origin.attempts + attempts, self._session.group)
        await self._divert(batch, failed)
        self._finish(batch)

    async def _attempt(self, batch: Batch, slot: Slot) -> Exception | None:
        """Wait for a slot, for the circuit breaker and for the event loop, then decode the messages and handle them.

        Returns:
            The failure; None if the messages were handled.

        Raises:
            Stopped: The claim has stopped before.
        """
        if not slot.is_held:
            await self._wait(slot.acquire)
        is_probe = False
        try:
            if self._circuit.is_open:
                with self._claim.report.doing(Activity.RETRYING, f"{self._name(batch)}: the circuit breaker is open"):
                    await self._wait(self._circuit.wait)
                is_probe = self._circuit.is_open
            if not self._time.is_free(trio.current_time()):
                await self._wait(self._time.wait)
            if self._claim.has_ended:
                raise Stopped
            self._time.add_holder()
            try:
                # Each attempt gets objects of its own: the last one may have changed the values.
                messages = [await self._decode(message) for message in batch]
                if self._calls.runs_in_processes:
                    await self._wait(self._calls.start_process)
                    if self._claim.has_ended:
                        raise Stopped
                await self._calls.call(messages)
            except Stopped:
                raise
            except Exception as error:  # noqa: BLE001 - the policy decides
                return error
            finally:
                self._time.remove_holder()
            self._circuit.succeeded()
            return None
        finally:
            if is_probe:
                self._circuit.end_probe()

    async def _decode(self, message: Message) -> Message[Any, Any]:
        original = self._policy.restored(message)
        if not self._decoder.looks_up:
            return await self._decoder.decode(original)
        # The registry may respond late, or never.
        with self._claim.report.doing(Activity.IN_HANDLER, "looking up a schema in the registry"):
            return await self._wait(self._decoder.decode, original)

    async def _divert(self, batch: Batch, failed: FailedMessage) -> None:
        """Send a failed message to its next place, until that succeeds.

        Raises:
            Stopped: The claim has stopped before.
            ConfigError: An option has to be changed first.
            Exception: The message's failure, if there is no place for it.
        """
        attempt, began = 1, trio.current_time()
        what = f"storing the failed message {self._name(batch)}"
        # Reported while it is sent, too: the producer itself retries for `Config.delivery_timeout`.
        doing = self._claim.report.doing(Activity.IN_HANDLER, what)
        while True:
            try:
                with doing:
                    if await self._policy.divert(batch[0], failed):
                        return
            except ConfigError as error:
                raise self._failed(batch, error) from None
            except Exception as error:  # noqa: BLE001 - whatever it is, the message must not be lost
                delay = _SENDING.delay(attempt)
                reason = f"{what}: {type(error).__name__}: {error_text(error)}"
                doing = self._claim.report.doing(Activity.RETRYING, reason, attempt=attempt + 1)
                await self._wait_again("dead_letter", what, error, attempt, began, delay)
                attempt += 1
            else:
                raise self._failed(batch, failed.error)

    def _failed(self, batch: Batch, error: Exception) -> Exception:
        """Note where the claim fails, for its ClaimError. Return the error."""
        self._claim.report.failed_offset = batch[0].offset
        return error

    async def _wait_again(
        self, kind: str, what: str, error: Exception, attempt: int, began: float, delay: float, attempts: int = 0
    ) -> None:
        """Report a failed attempt, and wait before the next one.

        Raises:
            Stopped: The claim has stopped.
        """
        cause = f"{type(error).__name__}: {error_text(error)}"
        self._session.notify(Retrying(what, attempt, trio.current_time() - began, delay, cause, kind=kind))
        with self._claim.report.doing(Activity.RETRYING, f"{what}: {cause}", attempt=attempt + 1, attempts=attempts):
            await self._wait(trio.sleep, delay)

    def _undecodable(self, batch: Batch, failure: Exception) -> Batch:
        """Return the message of a batch that cannot be decoded; none for another failure."""
        if not isinstance(failure, DecodeError):
            return ()
        place = (*failure.partition, failure.offset)
        origins = ((self._policy.origin(message), message) for message in batch)
        return [message for origin, message in origins if (origin.topic, origin.partition, origin.offset) == place][:1]

    def _name(self, batch: Batch) -> str:
        return held_text(batch[0].topic_partition, batch[0].offset, batch[-1].offset)

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


def _is_same(context: Context, other: Context) -> bool:
    try:
        return context == other
    except Exception:  # noqa: BLE001 - values of context variables are compared, such as arrays, which cannot be
        return False
