"""Interceptors: see or change messages on their way to the handler (KIP-42, sarama's ConsumerInterceptor).

For tracing, decryption, or extra headers that the handler need not know of. This module checks what an interceptor
returns, and handles its exceptions. A claim calls the chain once for each batch that it decodes; without interceptors
there is no call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import attrs

from sarameya.errors import ConfigError, InterceptorError
from sarameya.message_batch import MessageBatch, MessageColumns
from sarameya.model import CommittedOffset, Message, TopicPartition
from sarameya.observe import InterceptorFailed, InterceptorRecovered, Observer

OnError = Literal["raise", "skip"]

Intercept = Callable[[MessageBatch], MessageBatch]


class ConsumerInterceptor:
    """Base class of interceptors: override `on_consume`, `on_commit`, or both.

    Both are plain functions, run on the event loop, and must return soon: heartbeats wait meanwhile. Several
    interceptors are called in the given order, each with the messages that the one before it returned.
    """

    on_error: OnError = "raise"
    """The consequence of an exception in `on_consume`: `raise` or `skip`.

    `raise`: an InterceptorError is raised where the claim is read, which ends the session in order. The position stays,
    so no message is skipped. `skip`: the messages go on unchanged by this interceptor. Observers get
    `InterceptorFailed` in either case; with `skip` once for each failing partition, not for each message.
    """

    @property
    def name(self) -> str:
        """The interceptor's name in errors and events: its class name."""
        return type(self).__name__

    def on_consume(self, batch: MessageBatch) -> Sequence[Message] | MessageBatch | None:
        """Called with messages of one partition before the handler receives any of them.

        The result replaces the batch: one message for each, with the same topic, partition and offset (for example
        `message.replace(value=...)`), in the same order. Messages cannot be dropped or added, since marks and positions
        count offsets; the handler itself ignores those that it does not want.

        It is called when messages are decoded, not when the handler takes them. Messages that the handler does not take
        before its session ends, or that another interceptor fails on, are passed again to the next reader.

        Args:
            batch: The next record batch, or several joined ones (for `batches()`).

        Returns:
            The messages for the handler; None to leave them unchanged.
        """
        return None

    def on_commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Called with the offsets that the coordinator has just committed.

        An exception has no consequence, whatever `on_error` is: the commit stands. Observers get one
        `InterceptorFailed` until a call succeeds again.
        """


class Interceptors:
    """The interceptors of a group or a consumer, in order."""

    def __init__(self, interceptors: Sequence[ConsumerInterceptor], observer: Observer) -> None:
        self._observer = observer
        self._consuming = [one for one in interceptors if _overrides(one, "on_consume")]
        self._committing = [one for one in interceptors if _overrides(one, "on_commit")]
        # Interceptors whose last call failed, and the number of messages skipped since. Partition None: on_commit.
        self._failing: dict[tuple[int, TopicPartition | None], int] = {}

    @property
    def consume(self) -> Intercept | None:
        """The function that a claim calls with each batch; None without interceptors."""
        return self._consume if self._consuming else None

    def _consume(self, batch: MessageBatch) -> MessageBatch:
        for interceptor in self._consuming:
            try:
                given = interceptor.on_consume(batch)
                made = batch if given is None else _replaced(batch, given)
            except Exception as error:  # noqa: BLE001 - any exception is reported, and raised as ours or skipped
                self._failed(interceptor, batch, error)
            else:
                self._worked(interceptor, batch.topic_partition)
                batch = made
        return batch

    def _failed(self, interceptor: ConsumerInterceptor, batch: MessageBatch, error: Exception) -> None:
        partition, key = batch.topic_partition, (id(interceptor), batch.topic_partition)
        skips = interceptor.on_error == "skip"
        if key not in self._failing:
            self._observer(
                InterceptorFailed(interceptor.name, "on_consume", partition, batch.first_offset, repr(error), skips)
            )
        if not skips:
            raise InterceptorError(interceptor.name, partition, batch.first_offset, batch.last_offset, error) from error
        self._failing[key] = self._failing.get(key, 0) + len(batch)

    def committed(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Pass committed offsets to the interceptors."""
        for interceptor in self._committing:
            try:
                interceptor.on_commit(dict(offsets))
            except Exception as error:  # noqa: BLE001 - reported; the commit stands
                key = (id(interceptor), None)
                if key not in self._failing:
                    self._observer(InterceptorFailed(interceptor.name, "on_commit", None, None, repr(error), True))
                self._failing[key] = self._failing.get(key, 0) + 1
            else:
                self._worked(interceptor, None)

    def _worked(self, interceptor: ConsumerInterceptor, partition: TopicPartition | None) -> None:
        if self._failing and (missed := self._failing.pop((id(interceptor), partition), None)) is not None:
            call = "on_commit" if partition is None else "on_consume"
            self._observer(InterceptorRecovered(interceptor.name, call, partition, missed))


def _replaced(batch: MessageBatch, given: Sequence[Message] | MessageBatch) -> MessageBatch:
    """Return the batch with the messages that an interceptor returned.

    Raises:
        ValueError: They are not one message for each of the batch, at the same coordinates and in the same order.
    """
    messages: Sequence[Message] = given.messages if isinstance(given, MessageBatch) else given
    if messages is batch.messages:
        return batch
    if not isinstance(messages, MessageColumns):
        messages = list(messages)
    if not all(isinstance(message, Message) for message in messages):
        raise ValueError("on_consume must give back messages, or None")
    before, after = _coordinates(batch.messages), _coordinates(messages)
    if before != after:
        raise ValueError(
            f"on_consume must give back a message for each of the {len(before)}, with its topic, partition and offset, "
            f"in their order; it gave {len(after)}{_difference(before, after)}"
        )
    return attrs.evolve(batch, messages=messages)


def _coordinates(messages: Sequence[Message]) -> list[tuple[str, int, int]]:
    return [(message.topic, message.partition, message.offset) for message in messages]


def _difference(before: Sequence[tuple[str, int, int]], after: Sequence[tuple[str, int, int]]) -> str:
    for (topic, partition, offset), other in zip(before, after, strict=False):
        if (topic, partition, offset) != other:
            return f", and {other[0]}-{other[1]} at offset {other[2]} for {topic}-{partition} at offset {offset}"
    return ""


def check_interceptors(interceptors: Sequence[Any]) -> None:
    """Check the types and the options of interceptors.

    Raises:
        ConfigError: One is not a ConsumerInterceptor, has an invalid `on_error`, or a coroutine function as a method.
    """
    for interceptor in interceptors:
        if not isinstance(interceptor, ConsumerInterceptor):
            raise ConfigError("interceptors", interceptor, "must be ConsumerInterceptors")
        if interceptor.on_error not in ("raise", "skip"):
            raise ConfigError(f"on_error of {interceptor.name}", interceptor.on_error, "must be 'raise' or 'skip'")
        for name in ("on_consume", "on_commit"):
            if inspect.iscoroutinefunction(method := getattr(interceptor, name)):
                raise ConfigError(f"{interceptor.name}.{name}", method, "must be a plain function: nothing awaits it")


def _overrides(interceptor: ConsumerInterceptor, call: str) -> bool:
    return getattr(type(interceptor), call) is not getattr(ConsumerInterceptor, call)
