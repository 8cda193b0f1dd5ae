"""The interface that a user implements to handle messages one by one: `MessageHandler`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import final

import attrs
import trio

from sarameya.group.claim import Claim
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.group.services import HandlerServices
from sarameya.group.session import Session
from sarameya.handling.calls import Calls
from sarameya.handling.circuit_breaker import Circuit
from sarameya.handling.claim_work import ClaimWork
from sarameya.handling.failure_policy import DeadLetters, FailureOptions, FailurePolicy
from sarameya.handling.options import (
    NO_RETRY,
    ORDERINGS,
    CircuitBreaker,
    DeadLetterTopic,
    Ordering,
    Retry,
    RetryTopics,
    check_choice,
    check_count,
    check_kind,
    check_seconds,
)
from sarameya.model import Message
from sarameya.protocol.subscription import Wanted

_WAITING = 4
"""Messages of a claim that are read ahead, as a multiple of those that may be handled: other keys may be among them."""


@attrs.frozen(slots=True)
class HandlerRun:
    """State of a handler for the length of one `consume()`.

    Attributes:
        calls: Calls `handle`.
        policy: What happens to messages that fail.
        circuit: The circuit breaker.
        slots: A token for each message that is being handled.
    """

    calls: Calls
    policy: FailurePolicy
    circuit: Circuit
    slots: trio.CapacityLimiter


class MessageHandler(ConsumerGroupHandler):
    """A handler whose `handle` gets one message at a time, while several are handled at once.

    Example::

        class Orders(MessageHandler):
            ordering = "key"
            concurrency = 50

            async def handle(self, message: Message) -> None:
                await self.client.post(URL, content=message.value)

    A message is marked once `handle` has returned. The committed offset is that of the first unfinished message; the
    commit's metadata has the finished ones beyond it, so that the next owner does not repeat them (see
    `Claim.concurrently`). Delivery is at least once, in order by partition or by key.

    When a partition is revoked, no further message of it is begun. Messages that are being handled have
    `Config.claim_grace` to end, and are then cancelled. All other methods are those of ConsumerGroupHandler.

    The options are attributes of the class, or of an object before it is used.

    Attributes:
        ordering: Which messages of a partition are handled one after the other: `partition` (all of them), `key` (those
            with the same key; a message without a key waits for no other), or `none`.
        concurrency: Maximum number of messages that are handled at the same time, over all partitions of the member.
        partition_concurrency: The same for one partition; None: `concurrency`.
        retry: Retries in place of a message whose handling fails; none by default.
        retry_topics: Topics for messages that are tried again later, after that; None: none.
        dead_letters: A topic, or a coroutine function, that keeps messages whose handling has failed for good. None:
            the failure ends the session, and `ConsumerGroup.consume` raises it.
        circuit_breaker: Stops handling after several failures in a row; None: never.
        max_handler_time: Maximum of seconds for one call of `handle`, which then fails with HandlerTimeoutError; None
            for no limit.
    """

    ordering: Ordering = "partition"
    concurrency: int = 16
    partition_concurrency: int | None = None
    retry: Retry = NO_RETRY
    retry_topics: RetryTopics | None = None
    dead_letters: DeadLetters | None = None
    circuit_breaker: CircuitBreaker | None = None
    max_handler_time: float | None = None

    _run: HandlerRun | None = None

    @abstractmethod
    def handle(self, message: Message) -> Awaitable[None] | None:
        """Handle one message.

        Written as `async def`, it runs on the event loop. Written as `def`, it runs in a worker thread, where it may
        block; up to `concurrency` threads run at the same time. A thread cannot be cancelled: a rebalance waits for it
        until its deadline, and then the member leaves the group (RebalanceDeadlineError).

        Raises:
            Exception: Any exception counts as a failure of this message: see `retry`.
        """

    @final
    async def consume_claim(self, session: Session, claim: Claim) -> None:
        """Call `handle` with the messages of the claim."""
        run = self._run
        assert run is not None, "a session runs within consume()"
        at_once = self.partition_concurrency or self.concurrency
        limit = 1 if self.ordering == "partition" else at_once if self.ordering == "none" else at_once * _WAITING
        await ClaimWork(session, claim, run.calls, run.policy, self.ordering, run.circuit, run.slots, limit).run()

    def _running(self, services: HandlerServices) -> AbstractAsyncContextManager[None]:
        return self._started(services)

    @asynccontextmanager
    async def _started(self, services: HandlerServices) -> AsyncIterator[None]:
        """Open what the handler needs for the length of one `consume()`.

        Raises:
            RuntimeError: The object is in use by another `consume()`.
        """
        if self._run is not None:
            raise RuntimeError(f"this {type(self).__name__} is in use by another consume(): create an object for each")
        options = self._failure_options()
        calls = Calls(self.handle, self.concurrency, self.max_handler_time)
        async with services.open_sender() if options.needs_sender else nullcontext() as sender:
            policy = FailurePolicy(options, services, sender)
            await policy.prepare()
            self._run = HandlerRun(calls, policy, Circuit(self.circuit_breaker), trio.CapacityLimiter(self.concurrency))
            try:
                yield
            finally:
                self._run = None

    def _subscribed(self, wanted: Wanted, group: str) -> Wanted:
        return self._failure_options().subscribed(wanted, group)

    def _failure_options(self) -> FailureOptions:
        return FailureOptions(self.retry, self.retry_topics, self.dead_letters)

    def _check(self) -> None:
        """Check the options.

        Raises:
            ConfigError: An option is invalid.
        """
        check_kind("retry", self.retry, Retry)
        check_kind("retry_topics", self.retry_topics, RetryTopics, type(None))
        check_kind("circuit_breaker", self.circuit_breaker, CircuitBreaker, type(None))
        if not callable(self.dead_letters):
            check_kind("dead_letters", self.dead_letters, DeadLetterTopic, type(None))
        check_choice("ordering", self.ordering, ORDERINGS)
        check_count("concurrency", self.concurrency)
        if self.partition_concurrency is not None:
            check_count("partition_concurrency", self.partition_concurrency)
        check_seconds("max_handler_time", self.max_handler_time)
