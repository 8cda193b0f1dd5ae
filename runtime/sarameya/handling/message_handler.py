"""The interfaces that a user implements to handle messages: `MessageHandler` and `BatchHandler`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Sequence
from typing import Generic

from sarameya.handling.handler_runner import HandlerRunner
from sarameya.handling.message_options import BatchOptions
from sarameya.model import Message
from sarameya.type_variables import K, V


class MessageHandler(HandlerRunner, Generic[V, K]):
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
        partition_concurrency: The same for one partition, unless `ordering` is `partition`; None: `concurrency`.
        retry: Retries in place of a message whose handling fails; None: none.
        retry_topics: Topics for messages that are tried again later, after that; None: none.
        dead_letters: A topic, or a coroutine function, that keeps messages whose handling has failed for good. None:
            the failure ends the session, and `ConsumerGroup.consume` raises it.
        circuit_breaker: Stops handling after several failures in a row; None: never.
        processes: Number of processes that call a plain `def handle` (see there), instead of `concurrency`; None:
            threads.
        max_handler_time: Maximum of seconds for one call of `handle`, which then fails with HandlerTimeoutError; None
            for no limit.
    """

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


class BatchHandler(BatchOptions, HandlerRunner, Generic[V, K]):
    """A handler whose `handle_batch` gets several messages of a partition at a time.

    Example::

        class Rows(BatchHandler[Order]):
            batch_size = 500
            batch_age = 2.0

            async def handle_batch(self, messages: Sequence[Message[Order]]) -> None:
                await ledger.insert([message.value for message in messages])

    All else is as for MessageHandler; `concurrency`, `retry` and `max_handler_time` are about calls of `handle_batch`.
    The messages of a batch are finished together. If its attempts are used up, each of its messages is handled alone:
    only those at fault go to retry topics or dead letters. A message that cannot be decoded is left out.

    Attributes:
        batch_size: Maximum number of messages in a batch. About a thousand of a partition may be unfinished, all its
            batches together.
        batch_age: Seconds for which a message waits for others at most, before its batch is handled.
        ordering: `partition`: one batch of a partition after the other. `key`: as many batches at the same time as
            `partition_concurrency`, all messages with a key in the same one of them. `none`: any batches at the same
            time.
    """

    @abstractmethod
    def handle_batch(self, messages: Sequence[Message[V, K]]) -> Awaitable[None] | None:
        """Handle messages of one partition, in the order of the log.

        Written as `async def` or as `def`, as `MessageHandler.handle`.

        Raises:
            Exception: Any exception counts as a failure of all these messages: see `retry`.
        """
