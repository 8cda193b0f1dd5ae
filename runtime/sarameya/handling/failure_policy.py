"""Policy for messages whose handling fails: another attempt, a retry topic, dead letters, or the claim's failure.

The steps for one message, each until it succeeds:

    `Retry.attempts` in place -> each of the retry topics, one after the other -> dead letters, or the claim fails

A message that cannot be decoded (DecodeError) takes the last step at once.

A message that goes to another topic is finished here once all in-sync replicas have it: it is never lost in between,
and a crash may send it twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import attrs

from sarameya.errors import ConfigError, DecodeError, MessageTooLargeError
from sarameya.group.services import HandlerServices, RecordSender
from sarameya.handling.letters import FailedMessage, LetterOrigin
from sarameya.handling.options import DeadLetterTopic, Exceptions, Retry, RetryTopics
from sarameya.model import Headers, Message
from sarameya.observe import DeadLettered, SentToRetry
from sarameya.producer.record import ProducerRecord
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.subscription import Wanted, wants

DeadLetters = DeadLetterTopic | Callable[[FailedMessage], Awaitable[None]]
"""A topic, or a function that keeps a message elsewhere. The message is finished once the function returns."""


@attrs.frozen(slots=True)
class FailureOptions:
    """The options of a handler that decide about failed messages."""

    retry: Retry | None
    retry_topics: RetryTopics | None
    dead_letters: DeadLetters | None

    @property
    def needs_sender(self) -> bool:
        """True if messages may be sent to other topics."""
        return self.retry_topics is not None or isinstance(self.dead_letters, DeadLetterTopic)

    def subscribed(self, wanted: Wanted, group: str) -> Wanted:
        """Return a subscription with the retry topics of its topics.

        Raises:
            ConfigError: The retry topics of a pattern are not known, or dead letters would be read again.
        """
        if not isinstance(wanted, tuple):
            if self.retry_topics is not None:
                raise ConfigError("retry_topics", self.retry_topics, "needs a subscription by names, not by a pattern")
            return wanted
        retries = self.retry_topics_of(wanted, group)
        if isinstance(self.dead_letters, DeadLetterTopic):
            for topic in wanted:
                if (name := self.dead_letters.name_for(topic, group)) in wanted or name in retries:
                    raise _read_again(name)
        return tuple(sorted({*wanted, *retries}))

    def wanted_topics(self, topics: tuple[str, ...], group: str) -> dict[str, str | None]:
        """Return the names of all other topics, and the topic whose number of partitions each one has, if any."""
        wanted: dict[str, str | None] = dict(self.retry_topics_of(topics, group))
        if isinstance(self.dead_letters, DeadLetterTopic):
            wanted.update((self.dead_letters.name_for(topic, group), None) for topic in topics)
        return wanted

    def retry_topics_of(self, topics: tuple[str, ...], group: str) -> Mapping[str, str]:
        """Return the names of the retry topics of these topics, and the topic that each one belongs to."""
        retries = self.retry_topics
        if retries is None:
            return {}
        return {retries.name_for(topic, group, tier): topic for topic in topics for tier in range(len(retries.delays))}


class FailurePolicy:
    """Carries the options out, for the length of one `consume()`.

    Args:
        options: The handler's options.
        services: The group's services.
        sender: Sends messages to other topics; None if no option needs it.
    """

    def __init__(self, options: FailureOptions, services: HandlerServices, sender: RecordSender | None) -> None:
        self._options = options
        self._services = services
        self._sender = sender
        self._existing: set[str] = set()
        self._tiers = options.retry_topics_of(services.topics, services.group)
        self._retry = options.retry or Retry(attempts=1)
        self._backoff = Backoff(self._retry.backoff, self._retry.backoff_max, rng=services.rng)

    async def prepare(self) -> None:
        """Create the topics that are known now, or check that they exist.

        Raises:
            SarameyaError: A topic does not exist, or cannot be created.
        """
        await self._ensure(self._options.wanted_topics(self._services.topics, self._services.group))

    def delay(self, error: Exception, attempt: int) -> float | None:
        """Return the seconds before the next attempt in place; None if there is none.

        Args:
            error: The exception of the last attempt.
            attempt: Number of attempts in place so far.
        """
        retry = self._retry
        if attempt >= retry.attempts or not _is_one_of(error, retry.on):
            return None
        return self._backoff.delay(attempt)

    @property
    def attempts(self) -> int:
        """Maximum number of attempts in place."""
        return self._retry.attempts

    def origin(self, message: Message) -> LetterOrigin:
        """Return where a message was first written. The headers say so in a retry topic of this group.

        The headers of another group's retry topic do not count. A message of it that fails here would otherwise go to
        retry topics of the first topic, which this group does not read.
        """
        found = LetterOrigin.of(message)
        if found.due is None:
            return found
        # Redriven letters have the group that could not handle them, which may be another one, or a connector.
        is_ours = found.group == self._services.group or found.topic == self._tiers.get(message.topic)
        return found if is_ours and found.topic != message.topic else LetterOrigin.at(message)

    def restored(self, message: Message) -> Message:
        """Return the message as it was first written."""
        return self.origin(message).restore(message) if message.headers else message

    def due_time(self, message: Message) -> float | None:
        """Return the time from which a message of a retry topic may be handled; None for other messages."""
        due = self.origin(message).due if message.headers else None
        return None if due is None else due / 1000

    def seconds_until(self, due: float) -> float:
        """Return the seconds until a time, at least 0."""
        return max(0.0, due - self._services.wall_clock())

    async def divert(self, read: Message, failed: FailedMessage) -> bool:
        """Send a failed message to its next topic, or to the dead letters.

        Args:
            read: The message as it was read, maybe from a retry topic.
            failed: The failure.

        Returns:
            False if there is no place for it: the claim has to fail.

        Raises:
            ConfigError: An option has to be changed first.
            Exception: The message could not be stored. Call this again: it is not finished.
        """
        group, topic = self._services.group, failed.message.topic
        retries, letters = self._options.retry_topics, self._options.dead_letters
        if retries is not None and _is_one_of(failed.error, retries.on):
            tier = retries.tier_after(read.topic, topic, group)
            if tier is not None:
                name, delay = retries.name_for(topic, group, tier), retries.delays[tier]
                due = int((self._services.wall_clock() + delay) * 1000)
                await self._send(name, topic, failed, partial(failed.headers, due=due))
                self._services.observer(
                    SentToRetry(partition=read.topic_partition, offset=read.offset, topic=name, seconds=delay)
                )
                return True
        if letters is None:
            return False
        if isinstance(letters, DeadLetterTopic):
            name = letters.name_for(topic, group)
            wanted = self._services.wanted
            if not isinstance(wanted, tuple) and wants(wanted, name):
                raise _read_again(name)
            await self._send(name, None, failed, partial(failed.headers, like_connect=letters.connect_headers))
            place = f"topic {name}"
        else:
            returned = letters(failed)
            if not isinstance(returned, Awaitable):
                raise ConfigError("dead_letters", letters, "must be a coroutine function: write it as `async def`")
            await returned
            place = getattr(letters, "__qualname__", repr(letters))
        self._services.observer(DeadLettered(partition=read.topic_partition, count=1, place=place))
        return True

    async def _send(
        self, topic: str, model: str | None, failed: FailedMessage, headers: Callable[..., Headers]
    ) -> None:
        assert self._sender is not None, "no option needs a sender"
        await self._ensure({topic: model})
        message = failed.message
        try:
            await self._sender.send_many([ProducerRecord(topic, message.value, message.key, headers())])
        except MessageTooLargeError:
            # The message itself may just fit.
            await self._sender.send_many([ProducerRecord(topic, message.value, message.key, headers(brief=True))])

    async def _ensure(self, wanted: Mapping[str, str | None]) -> None:
        retries, letters = self._options.retry_topics, self._options.dead_letters
        new = {name: model for name, model in wanted.items() if name not in self._existing}
        tiers = {name: model for name, model in new.items() if model is not None}
        places = {name: model for name, model in new.items() if model is None}
        if tiers and retries is not None:
            await self._services.ensure_topics(tiers, create=retries.create)
        if places and isinstance(letters, DeadLetterTopic):
            await self._services.ensure_topics(places, create=letters.create)
        self._existing.update(new)


def _read_again(topic: str) -> ConfigError:
    reason = "is a topic that the handler reads, so its letters would fail again and again"
    return ConfigError("dead_letters", topic, f"{reason}: set another name, or a pattern that does not match it")


def _is_one_of(error: Exception, kinds: Exceptions) -> bool:
    """Return whether an exception is of these kinds; for an ExceptionGroup, whether all of its exceptions are.

    A message that cannot be decoded is not retried: its bytes stay the same.
    """
    if isinstance(error, DecodeError):
        return False
    if isinstance(error, kinds):
        return True
    return isinstance(error, ExceptionGroup) and error.split(kinds)[1] is None
