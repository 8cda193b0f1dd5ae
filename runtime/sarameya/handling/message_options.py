"""The options of a message handler, as attributes of its class. The same for handlers of trio and of asyncio."""

from __future__ import annotations

import difflib
import inspect
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic

from sarameya.errors import ConfigError
from sarameya.formats.decoders import RAW
from sarameya.formats.format import Format
from sarameya.formats.message_decoder import MessageDecoder
from sarameya.group.handler_methods import check_async
from sarameya.handling.calls import is_async
from sarameya.handling.failure_policy import DeadLetters, FailureOptions
from sarameya.handling.options import (
    ORDERINGS,
    CircuitBreaker,
    DeadLetterTopic,
    Ordering,
    Retry,
    RetryTopics,
    check_choice,
    check_kind,
    check_seconds,
)
from sarameya.handling.processes import check_processes
from sarameya.handling.type_arguments import type_arguments
from sarameya.option_kinds import check_count, unknown_option


class MessageOptions:
    """Base class with the options; `MessageHandler` describes them."""

    _method = "handle"
    """Name of the method that handles messages."""

    value_type: Any = RAW
    key_type: Any = RAW
    value_format: Format | str | None = None
    key_format: Format | str | None = None
    ordering: Ordering = "partition"
    concurrency: int = 16
    partition_concurrency: int | None = None
    retry: Retry | None = None
    retry_topics: RetryTopics | None = None
    dead_letters: DeadLetters | None = None
    circuit_breaker: CircuitBreaker | None = None
    processes: int | None = None
    max_handler_time: float | None = None

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # The class that a user subclasses with types in brackets.
        generic = next(
            (kind for kind in reversed(cls.__mro__) if Generic in kind.__bases__ and issubclass(kind, MessageOptions)),
            cls,
        )
        for name, kind in type_arguments(cls, generic, ("value_type", "key_type")).items():
            if name not in vars(cls):
                setattr(cls, name, kind)

    @property
    def _batch(self) -> tuple[int, float] | None:
        """Size and age of batches; None if each message has a call of its own."""
        return None

    @property
    def _called(self) -> Any:
        """The object whose method is called."""
        return self

    def _message_decoder(self) -> MessageDecoder:
        """Return the decoder of keys and values.

        Raises:
            ConfigError: A type or a format cannot be used.
        """
        return MessageDecoder(self.key_type, self.key_format, self.value_type, self.value_format)

    def _failure_options(self) -> FailureOptions:
        return FailureOptions(self.retry, self.retry_topics, self.dead_letters)

    def _check(self) -> None:
        """Check the options.

        Raises:
            ConfigError: An option is invalid.
        """
        self._check_names()
        self._message_decoder()
        method = getattr(self._called, self._method)
        if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
            name = f"{type(self._called).__name__}.{self._method}"
            raise ConfigError(name, method, "is a generator, which runs nothing: remove the `yield`")
        # Each message would fail, and become a dead letter.
        _check_takes_one(self._method, method, "must take one argument besides self")
        check_kind("retry", self.retry, Retry, type(None))
        check_kind("retry_topics", self.retry_topics, RetryTopics, type(None))
        check_kind("circuit_breaker", self.circuit_breaker, CircuitBreaker, type(None))
        if callable(self.dead_letters) and not isinstance(self.dead_letters, type):
            check_async(self, ["dead_letters"])
            reason = "must take one FailedMessage; a function in the class needs `dead_letters = staticmethod(...)`"
            _check_takes_one("dead_letters", self.dead_letters, reason)
        else:
            check_kind("dead_letters", self.dead_letters, DeadLetterTopic, type(None))
        ends_session = self.dead_letters is None and self.retry_topics is None
        if ends_session and self.circuit_breaker is not None and self.circuit_breaker.failures > 1:
            reason = "needs dead_letters or retry_topics: without them the first failure ends the session"
            raise ConfigError("circuit_breaker", self.circuit_breaker, reason)
        check_choice("ordering", self.ordering, ORDERINGS)
        check_count("concurrency", self.concurrency)
        if self.partition_concurrency is not None:
            check_count("partition_concurrency", self.partition_concurrency)
        if self.processes is not None:
            check_count("processes", self.processes)
            if self.concurrency != MessageOptions.concurrency:
                reason = "must not be set with processes: there are as many calls at a time as processes"
                raise ConfigError("concurrency", self.concurrency, reason)
            if is_async(method):
                raise ConfigError("processes", self.processes, f"needs a plain `def {self._method}`, without `async`")
            check_processes(self._called, self.processes, (self.value_type, self.key_type))
        check_seconds("max_handler_time", self.max_handler_time)

    def _check_names(self) -> None:
        """Check that the class has no attribute that is without effect: an option of others, or a misspelt one."""
        options = {*MessageOptions.__annotations__, *BatchOptions.__annotations__}
        for kind in type(self).__mro__:
            if kind is object or kind.__module__.startswith("sarameya."):
                continue
            for name, value in vars(kind).items():
                if name == "consume_claim":
                    raise ConfigError(name, value, f"must not be defined: messages go to {self._method}")
                self._check_name(name, value, options)
        for name, value in getattr(self, "__dict__", {}).items():
            self._check_name(name, value, options)

    def _check_name(self, name: str, value: object, options: set[str]) -> None:
        if name in BatchOptions.__annotations__ and not isinstance(self, BatchOptions):
            raise ConfigError(name, value, "is an option of a BatchHandler only")
        if name in options or name.startswith("_") or hasattr(value, "__get__"):
            return
        is_policy = isinstance(value, Retry | RetryTopics | DeadLetterTopic | CircuitBreaker)
        if is_policy or difflib.get_close_matches(name, options, cutoff=0.9):
            raise ConfigError(name, value, unknown_option(name, options))


class BatchOptions(MessageOptions):
    """Base class with the options of a handler of batches; `BatchHandler` describes them."""

    _method = "handle_batch"

    batch_size: int = 100
    batch_age: float = 1.0

    @property
    def _batch(self) -> tuple[int, float]:
        return self.batch_size, self.batch_age

    def _check(self) -> None:
        super()._check()
        check_count("batch_size", self.batch_size)
        check_seconds("batch_age", self.batch_age)
        if self.batch_age is None:
            raise ConfigError("batch_age", None, "must be a number of seconds above 0")


def _check_takes_one(name: str, function: Any, reason: str) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # a compiled function may have none
        return
    try:
        signature.bind("argument")
    except TypeError as error:
        raise ConfigError(name, function, f"{reason}: {error}") from error
