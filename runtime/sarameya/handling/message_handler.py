"""The interface that a user implements to handle messages one by one: `MessageHandler`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import final

import trio

from sarameya.group.claim import Claim
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.group.services import HandlerServices
from sarameya.group.session import Session
from sarameya.handling.calls import Calls
from sarameya.handling.circuit_breaker import Circuit
from sarameya.handling.claim_work import ClaimWork, HandlerRun
from sarameya.handling.failure_policy import FailurePolicy
from sarameya.handling.message_options import MessageOptions
from sarameya.handling.processes import WorkerProcesses, open_processes
from sarameya.model import Message
from sarameya.protocol.subscription import Wanted
from sarameya.type_variables import K, V

_WAITING = 4
"""Messages of a claim that are read ahead, as a multiple of those that may be handled: other keys may be among them."""


class MessageHandler(MessageOptions[V, K], ConsumerGroupHandler):
    """A handler whose `handle` gets one message at a time, while several are handled at once.

    Example::

        class Orders(MessageHandler[Order]):
            ordering = "key"
            concurrency = 50

            async def handle(self, message: Message[Order]) -> None:
                await ship(message.value.number)

    A message is marked once `handle` has returned. The committed offset is that of the first unfinished message; the
    commit's metadata has the finished ones beyond it, so that the next owner does not repeat them (see
    `Claim.concurrently`). Delivery is at least once, in order by partition or by key.

    When a partition is revoked, no further message of it is begun. Messages that are being handled have
    `Config.claim_grace` to end, and are then cancelled. All other methods are those of ConsumerGroupHandler.

    Values are decoded to the type in brackets, and keys to a second one: `MessageHandler[Order, str]`. Without types
    they are bytes, or None. A message that cannot be decoded fails with DecodeError; it is not retried.

    The options are attributes of the class, or of an object before it is used.

    Attributes:
        value_type: Type of values; the one in brackets, unless it is set. A `str` is decoded from UTF-8, and any other
            type but `bytes` from JSON: by msgspec to a Struct, a dataclass, an attrs class, a TypedDict or a builtin
            type, by pydantic to its models.
            A message without a value (a tombstone) is None, which only a type such as `Order | None` accepts.
        key_type: The same for keys.
        value_format: Format of values, if it is not the usual one of their type: a name (`json`, `string`, `bytes`,
            `protobuf`), or a `Format` (Avro, a schema registry).
        key_format: The same for keys.
        ordering: Which messages of a partition are handled one after the other: `partition` (all of them), `key` (those
            with the same key; a message without a key waits for no other), or `none`.
        concurrency: Maximum number of messages that are handled at the same time, over all partitions of the member.
        partition_concurrency: The same for one partition; None: `concurrency`.
        retry: Retries in place of a message whose handling fails; None: none.
        retry_topics: Topics for messages that are tried again later, after that; None: none.
        dead_letters: A topic, or a coroutine function, that keeps messages whose handling has failed for good. None:
            the failure ends the session, and `ConsumerGroup.consume` raises it.
        circuit_breaker: Stops handling after several failures in a row; None: never.
        processes: Number of processes that call a plain `def handle` (see there); None: threads.
        max_handler_time: Maximum of seconds for one call of `handle`, which then fails with HandlerTimeoutError; None
            for no limit.
    """

    _run: HandlerRun | None = None

    @abstractmethod
    def handle(self, message: Message[V, K]) -> Awaitable[None] | None:
        """Handle one message.

        Written as `async def`, it runs on the event loop. Written as `def`, it runs in a worker thread, where it may
        block; up to `concurrency` threads run at the same time. A thread cannot be cancelled: a rebalance waits for it
        until its deadline, and then the member leaves the group (RebalanceDeadlineError).

        With `processes`, a plain `def` runs in a process, for work that needs the processor. Each process has a copy of
        the handler from the start of `consume()`; what `handle` changes stays there. The handler, the messages (with
        their types) and the exceptions must be picklable. A cancellation, and `max_handler_time`, kill the process.

        Raises:
            Exception: Any exception counts as a failure of this message: see `retry`.
        """

    @final
    async def consume_claim(self, session: Session, claim: Claim) -> None:
        """Call `handle` with the messages of the claim."""
        run = self._run
        assert run is not None, "a session runs within consume()"
        at_once = self.partition_concurrency or self.processes or self.concurrency
        limit = 1 if self.ordering == "partition" else at_once if self.ordering == "none" else at_once * _WAITING
        await ClaimWork(session, claim, run, limit).run()

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
        decoder = self._message_decoder()
        at_once = self.processes or self.concurrency
        async with (
            services.open_sender() if options.needs_sender else nullcontext() as sender,
            open_processes(self._called, self.processes) if self.processes else nullcontext() as processes,
        ):
            calls = self._open_calls(at_once, processes)
            policy = FailurePolicy(options, services, sender)
            await policy.prepare()
            circuit, slots = Circuit(self.circuit_breaker), trio.CapacityLimiter(at_once)
            self._run = HandlerRun(decoder, calls, policy, self.ordering, circuit, slots)
            try:
                yield
            finally:
                self._run = None

    def _open_calls(self, threads: int, processes: WorkerProcesses | None) -> Calls:
        return Calls(self.handle, threads, self.max_handler_time, processes)

    def _subscribed(self, wanted: Wanted, group: str) -> Wanted:
        return self._failure_options().subscribed(wanted, group)
