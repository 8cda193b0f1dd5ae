"""The interfaces that a user of asyncio implements: `ConsumerGroupHandler` and `MessageHandler`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from typing import Generic, final

from sarameya.asyncio.claim import Claim
from sarameya.asyncio.session import Session
from sarameya.group.handler_methods import METHODS, check_async, check_class
from sarameya.handling.message_options import BatchOptions, MessageOptions
from sarameya.model import CommittedOffset, Message, TopicPartition
from sarameya.type_variables import K, V


class ConsumerGroupHandler(ABC):
    """Callbacks of a session, for the user to implement: the same as `sarameya.ConsumerGroupHandler`, on asyncio.

    Each call is a task of the event loop that runs `ConsumerGroup.consume`. When a call has to end before it returns,
    its task is cancelled. Methods that a class does not define cost no call.
    """

    async def setup(self, session: Session) -> None:
        """Called once for each session, before any claim starts. Marks and `session.claims` may be used."""

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        """Called with newly assigned partitions, before their claims start. Not called for an empty list."""

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        """Called with revoked partitions, after their claims have stopped and before the last commit of their marks."""

    async def partitions_lost(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        """Called with lost partitions: other members may read them already, and marks can no longer be committed."""

    @abstractmethod
    async def consume_claim(self, session: Session, claim: Claim) -> None:
        """Read one partition until its claim stops: `async for message in claim`.

        The iterator ends when the claim stops. Code after the loop may run for the rest of `Config.claim_grace` and is
        then cancelled. Returning earlier ends the session for all claims.
        """

    async def cleanup(self, session: Session) -> None:
        """Called once for each session, after all claims have stopped and before the last commit."""

    async def start_offset(
        self, partition: TopicPartition, committed: CommittedOffset | None
    ) -> int | CommittedOffset | None:
        """Return a partition's start offset, or None for the committed offset (else `Config.offset_initial`).

        See `sarameya.ConsumerGroupHandler.start_offset`.

        Args:
            partition: The partition to start.
            committed: Its committed offset; None if the group has committed none.

        Returns:
            An offset, or a CommittedOffset with the leader epoch of the record before it.
        """
        return None

    def _check(self) -> None:
        """Check the handler's options. Called before the handler is used.

        Raises:
            ConfigError: An option is invalid.
        """


class MessageHandler(MessageOptions, ConsumerGroupHandler, Generic[V, K]):
    """A handler whose `handle` gets one message at a time, while several are handled at once.

    Example::

        class Orders(MessageHandler):
            ordering = "key"
            concurrency = 50

            async def handle(self, message: Message) -> None:
                await client.post(URL, content=message.value)

    Types, options, order, retries, dead letters and commits are those of `sarameya.MessageHandler`, which describes all
    attributes. One object may serve several groups. A call that blocks the event loop cannot be cancelled: not at the
    end of `max_handler_time` either.

    When a partition is revoked, no further message of it is begun. Messages that are being handled have
    `Config.claim_grace` to end, and their tasks are then cancelled.
    """

    @abstractmethod
    def handle(self, message: Message[V, K]) -> Awaitable[None] | None:
        """Handle one message.

        Written as `async def`, it runs on the event loop. Written as `def`, it runs in a worker thread, where it may
        block, or in a process: see `sarameya.MessageHandler.handle`.

        Raises:
            Exception: Any exception counts as a failure of this message: see `retry`.
        """

    @final
    async def consume_claim(self, session: Session, claim: Claim) -> None:
        """Raise NotImplementedError: the messages go to `handle`."""
        raise NotImplementedError("a MessageHandler gets its messages in handle")


class BatchHandler(BatchOptions, ConsumerGroupHandler, Generic[V, K]):
    """A handler whose `handle_batch` gets several messages of a partition at a time: as `sarameya.BatchHandler`.

    Example::

        class Rows(BatchHandler):
            batch_size = 500
            batch_age = 2.0

            async def handle_batch(self, messages: Sequence[Message]) -> None:
                await ledger.insert([message.value for message in messages])
    """

    @abstractmethod
    def handle_batch(self, messages: Sequence[Message[V, K]]) -> Awaitable[None] | None:
        """Handle messages of one partition, in the order of the log.

        Raises:
            Exception: Any exception counts as a failure of all these messages: see `retry`.
        """

    @final
    async def consume_claim(self, session: Session, claim: Claim) -> None:
        """Raise NotImplementedError: the messages go to `handle_batch`."""
        raise NotImplementedError("a BatchHandler gets its messages in handle_batch")


def check_handler(handler: ConsumerGroupHandler) -> ConsumerGroupHandler:
    """Return a handler that can be run.

    Raises:
        ConfigError: It is not a handler for asyncio, a method is not a coroutine function, or an option is invalid.
    """
    check_class(handler, ConsumerGroupHandler, "sarameya.asyncio", "sarameya")
    check_async(handler, METHODS)
    handler._check()
    return handler
