"""What looks at messages, or changes them, on their way to the handler (KIP-42, sarama's ConsumerInterceptor): for
tracing, decryption, headers of one's own, without the handler's knowing.

Owns what interceptors may give back, and what becomes of one that raises. Claims call the chain, once for each batch
that they decode; with no interceptors they do not.
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
    """A base for one's own: override `on_consume`, `on_commit`, or both.

    Both are called on the event loop, are not async, and must return soon: heartbeats wait meanwhile. Several are
    called in the order in which they are given, each with what the one before it has made of the messages.
    """

    on_error: OnError = "raise"
    """What becomes of an exception in `on_consume`. `raise`: an InterceptorError is raised where the claim is read,
    which ends the session in order; the messages are the next ones still, and nothing of them is skipped. `skip`: they
    are handed on as this interceptor was given them. Observers are told in either case (`InterceptorFailed`), with
    `skip` once a change of each partition, not once a message."""

    @property
    def name(self) -> str:
        """What it is called in errors and events: its class's name."""
        return type(self).__name__

    def on_consume(self, batch: MessageBatch) -> Sequence[Message] | MessageBatch | None:
        """Called with messages of one partition before the handler is given any of them: the record batch that comes
        next, or some joined (for `batches()`). None: they stay as they are.

        What is given back stands in for them: a message for each, with its topic, partition and offset (for example
        `message.replace(value=...)`), in the same order. None can be left out or added, which is an error: marks and
        positions count offsets, so a message that is not wanted is the handler's to pass by.

        It is called before messages are handed out, not when: what the handler does not come to take before its
        session ends, and what another one could not deal with, is seen again by whoever reads it next.
        """
        return None

    def on_commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Called with what the coordinator has just taken. What this raises, observers are told, once a change; it has
        no other consequence, whatever `on_error` says: the commit stands, and nobody waits here."""


class Interceptors:
    """The interceptors of a group or a consumer, in order."""

    def __init__(self, interceptors: Sequence[ConsumerInterceptor], observer: Observer) -> None:
        self._observer = observer
        self._consuming = [one for one in interceptors if _overrides(one, "on_consume")]
        self._committing = [one for one in interceptors if _overrides(one, "on_commit")]
        # Who failed last time and is skipped: for a partition the messages that it has not seen; None: on_commit.
        self._failing: dict[tuple[int, TopicPartition | None], int] = {}

    @property
    def consume(self) -> Intercept | None:
        """What a claim does with each batch; None: nothing."""
        return self._consume if self._consuming else None

    def _consume(self, batch: MessageBatch) -> MessageBatch:
        for interceptor in self._consuming:
            try:
                given = interceptor.on_consume(batch)
                made = batch if given is None else _replaced(batch, given)
            except Exception as error:  # noqa: BLE001 - whatever it raises is told, and raised as ours or passed over
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
        """Tell of a commit."""
        for interceptor in self._committing:
            try:
                interceptor.on_commit(dict(offsets))
            except Exception as error:  # noqa: BLE001 - told; the commit stands
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
    """The batch with the messages that were given back. Raises ValueError if they are not one for each of its own."""
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
    """Raises ConfigError for what is no interceptor, or does not say what becomes of what it raises."""
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
