"""Interceptors: read or change messages on their way to the handler (KIP-42, sarama's ConsumerInterceptor).

Uses are tracing, decryption, or extra headers without any change to the handler. This module checks the results of
interceptors, and handles their exceptions. A claim calls all interceptors once for each batch that it decodes; without
interceptors there is no call.
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
    interceptors are called in the given order, each with the messages that the previous interceptor returned.
    """

    on_error: OnError = "raise"
    """Consequence of an exception in `on_consume`: `raise` or `skip`.

    `raise`: reading the claim raises an InterceptorError, which ends the session after its last commit. The position
    stays, so no message is skipped. `skip`: this interceptor is skipped, and the messages continue unchanged. Observers
    get `InterceptorFailed` in either case; with `skip` once for each failing partition, not for each message.
    """

    @property
    def name(self) -> str:
        """Name of the interceptor in errors and events: its class name."""
        return type(self).__name__

    def on_consume(self, batch: MessageBatch) -> Sequence[Message] | MessageBatch | None:
        """Called with messages of one partition before the handler receives any of them.

        The returned messages replace those of the batch: one for each message, with the same topic, partition and
        offset (for example `message.replace(value=...)`), in the same order. Messages cannot be dropped or added, since
        marks and positions count offsets. The handler has to ignore unwanted messages itself.

        `on_consume` is called when messages are decoded, not when the handler takes them. Messages that the handler
        does not take before its session ends, or on which another interceptor fails, are passed to `on_consume` again
        when they are read again.

        Args:
            batch: The next record batch, or several joined ones (for `batches()`).

        Returns:
            The messages for the handler; None to leave them unchanged.
        """
        return None

    def on_commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Called with the offsets that the coordinator has just committed.

        An exception has no effect on the commit, whatever `on_error` is. Observers get one `InterceptorFailed` until a
        call succeeds again.
        """


class Interceptors:
    """The interceptors of a group or a consumer, in order."""

    def __init__(self, interceptors: Sequence[ConsumerInterceptor], observer: Observer) -> None:
        self._observer = observer
        self._consuming = [each for each in interceptors if _overrides(each, "on_consume")]
        self._committing = [each for each in interceptors if _overrides(each, "on_commit")]
        # Interceptors whose last call failed, and the number of messages skipped since. Partition None: on_commit.
        self._failing: dict[tuple[int, TopicPartition | None], int] = {}

    @property
    def consume(self) -> Intercept | None:
        """The function that a claim calls with each batch; None without interceptors."""
        return self._consume if self._consuming else None

    def _consume(self, batch: MessageBatch) -> MessageBatch:
        for interceptor in self._consuming:
            try:
                result = interceptor.on_consume(batch)
                replaced = batch if result is None else _replace_messages(batch, result)
            except Exception as error:  # noqa: BLE001 - any exception is reported, and raised as ours or skipped
                self._on_failure(interceptor, batch, error)
            else:
                self._on_success(interceptor, batch.topic_partition)
                batch = replaced
        return batch

    def _on_failure(self, interceptor: ConsumerInterceptor, batch: MessageBatch, error: Exception) -> None:
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
            except Exception as error:  # noqa: BLE001 - only reported: the commit is done
                key = (id(interceptor), None)
                if key not in self._failing:
                    self._observer(InterceptorFailed(interceptor.name, "on_commit", None, None, repr(error), True))
                self._failing[key] = self._failing.get(key, 0) + 1
            else:
                self._on_success(interceptor, None)

    def _on_success(self, interceptor: ConsumerInterceptor, partition: TopicPartition | None) -> None:
        if self._failing and (missed := self._failing.pop((id(interceptor), partition), None)) is not None:
            call = "on_commit" if partition is None else "on_consume"
            self._observer(InterceptorRecovered(interceptor.name, call, partition, missed))


def _replace_messages(batch: MessageBatch, result: Sequence[Message] | MessageBatch) -> MessageBatch:
    """Return the batch with the messages that an interceptor returned.

    Raises:
        ValueError: Topics, partitions and offsets of the messages differ from the batch, or their order does.
    """
    messages: Sequence[Message] = result.messages if isinstance(result, MessageBatch) else result
    if messages is batch.messages:
        return batch
    if not isinstance(messages, MessageColumns):
        messages = list(messages)
    if not all(isinstance(message, Message) for message in messages):
        raise ValueError("on_consume must return messages, or None")
    before, after = _coordinates(batch.messages), _coordinates(messages)
    if before != after:
        raise ValueError(
            f"on_consume must return one message for each of the {len(before)}, with its topic, partition and offset, "
            f"in the same order; it returned {len(after)}{_difference(before, after)}"
        )
    return attrs.evolve(batch, messages=messages)


def _coordinates(messages: Sequence[Message]) -> list[tuple[str, int, int]]:
    return [(message.topic, message.partition, message.offset) for message in messages]


def _difference(before: Sequence[tuple[str, int, int]], after: Sequence[tuple[str, int, int]]) -> str:
    for (topic, partition, offset), other in zip(before, after, strict=False):
        if (topic, partition, offset) != other:
            return f", and {other[0]}-{other[1]} at offset {other[2]} instead of {topic}-{partition} at offset {offset}"
    return ""


def check_interceptors(interceptors: Sequence[Any]) -> None:
    """Check the types and the options of interceptors.

    Raises:
        ConfigError: An interceptor is not a ConsumerInterceptor, has an invalid `on_error`, or has an async method.
    """
    for interceptor in interceptors:
        if not isinstance(interceptor, ConsumerInterceptor):
            raise ConfigError("interceptors", interceptor, "must be ConsumerInterceptors")
        if interceptor.on_error not in ("raise", "skip"):
            raise ConfigError(f"on_error of {interceptor.name}", interceptor.on_error, "must be 'raise' or 'skip'")
        for name in ("on_consume", "on_commit"):
            if inspect.iscoroutinefunction(method := getattr(interceptor, name)):
                raise ConfigError(f"{interceptor.name}.{name}", method, "must be a plain function: it is not awaited")


def _overrides(interceptor: ConsumerInterceptor, call: str) -> bool:
    return getattr(type(interceptor), call) is not getattr(ConsumerInterceptor, call)
