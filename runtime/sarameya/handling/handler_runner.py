"""Start of a message handler, and its work on a claim: the same for single messages and for batches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, final

from sarameya.group.claim import Claim
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.group.services import HandlerServices
from sarameya.group.session import Session
from sarameya.handling.batches import Batches
from sarameya.handling.calls import Calls
from sarameya.handling.circuit_breaker import Circuit
from sarameya.handling.claim_work import ClaimWork, HandlerRun
from sarameya.handling.failure_policy import FailurePolicy
from sarameya.handling.message_options import MessageOptions
from sarameya.handling.processes import WorkerProcesses, open_processes
from sarameya.handling.slots import Slots
from sarameya.protocol.subscription import Wanted

_READ_AHEAD = 4
"""Messages of a claim that are read, as a multiple of those that may be handled."""
_READ_AHEAD_BY_KEY = 64
"""The same for order by key: while many messages of a key wait, those of other keys are to be found behind them."""


class HandlerRunner(MessageOptions, ConsumerGroupHandler):
    """Base class of the handlers that get messages, not claims."""

    _is_used = False
    _run: HandlerRun | None = None

    @final
    async def consume_claim(self, session: Session, claim: Claim) -> None:
        """Handle the messages of the claim."""
        run = self._run
        assert run is not None, "a session runs within consume()"
        lanes = 1 if self.ordering == "partition" else self.partition_concurrency or self._at_once
        batches = None if self._batch is None else Batches(self.ordering, *self._batch, at_once=lanes)
        read_ahead = _READ_AHEAD_BY_KEY if self.ordering == "key" else _READ_AHEAD
        limit = lanes * read_ahead * (1 if self._batch is None else self._batch[0])
        await ClaimWork(session, claim, run, limit, self.partition_concurrency, batches).run()

    def _running(self, services: HandlerServices) -> AbstractAsyncContextManager[None]:
        return self._started(services)

    @asynccontextmanager
    async def _started(self, services: HandlerServices) -> AsyncIterator[None]:
        """Open what the handler needs for the length of one `consume()`.

        Raises:
            RuntimeError: The object is in use by another `consume()`.
        """
        if self._is_used:
            raise RuntimeError(f"this {type(self).__name__} is in use by another consume(): create an object for each")
        self._is_used = True
        try:
            async with self._open_run(services) as self._run:
                yield
        finally:
            self._is_used, self._run = False, None

    @asynccontextmanager
    async def _open_run(self, services: HandlerServices) -> AsyncIterator[HandlerRun]:
        options = self._failure_options()
        decoder = self._message_decoder()
        async with (
            services.open_sender() if options.needs_sender else nullcontext() as sender,
            self._open_processes() as processes,
        ):
            policy = FailurePolicy(options, services, sender)
            await policy.prepare()
            circuit, slots = Circuit(self.circuit_breaker), Slots(self._at_once)
            yield HandlerRun(decoder, self._open_calls(processes), policy, self.ordering, circuit, slots)

    @property
    def _at_once(self) -> int:
        """Maximum number of calls at the same time."""
        return self.processes or self.concurrency

    def _open_processes(self) -> AbstractAsyncContextManager[WorkerProcesses | None]:
        return nullcontext() if self.processes is None else open_processes(self._called, self._method, self.processes)

    def _open_calls(self, processes: WorkerProcesses | None) -> Calls:
        return Calls(
            getattr(self._called, self._method),
            self._at_once,
            self.max_handler_time,
            gets_batch=self._batch is not None,
            processes=processes,
            run=self._await_call,
        )

    async def _await_call(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Call a function and await what it returns, on the event loop that the handler is written for."""
        await function(*args)

    def _subscribed(self, wanted: Wanted, group: str) -> Wanted:
        return self._failure_options().subscribed(wanted, group)
