"""The interface that a user implements to handle messages one by one: `MessageHandler`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable
from typing import final

import trio

from sarameya.group.claim import Claim
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.group.session import Session
from sarameya.handling.calls import Calls
from sarameya.handling.claim_work import ClaimWork
from sarameya.handling.options import NO_RETRY, ORDERINGS, Ordering, Retry, check_choice, check_count, check_seconds
from sarameya.model import Message

_WAITING = 4
"""Messages of a claim that are read ahead, as a multiple of those that may be handled: other keys may be among them."""


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
        retry: Retries of a message whose handling fails. Without them, and after the last one, the failure ends the
            session, and `ConsumerGroup.consume` raises it.
        max_handler_time: Maximum of seconds for one call of `handle`, which then fails with HandlerTimeoutError; None
            for no limit.
    """

    ordering: Ordering = "partition"
    concurrency: int = 16
    partition_concurrency: int | None = None
    retry: Retry = NO_RETRY
    max_handler_time: float | None = None

    _slots: trio.CapacityLimiter | None = None
    _calls: Calls | None = None

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
        if self._slots is None or self._calls is None:
            self._slots = trio.CapacityLimiter(self.concurrency)
            self._calls = Calls(self.handle, self.concurrency, self.max_handler_time)
        at_once = self.partition_concurrency or self.concurrency
        limit = 1 if self.ordering == "partition" else at_once if self.ordering == "none" else at_once * _WAITING
        await ClaimWork(session, claim, self._calls, self.ordering, self.retry, self._slots, limit).run()

    def _check(self) -> None:
        """Check the options.

        Raises:
            ConfigError: An option is invalid.
        """
        check_choice("ordering", self.ordering, ORDERINGS)
        check_count("concurrency", self.concurrency)
        if self.partition_concurrency is not None:
            check_count("partition_concurrency", self.partition_concurrency)
        check_seconds("max_handler_time", self.max_handler_time)
