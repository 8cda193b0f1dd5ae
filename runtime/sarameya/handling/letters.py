"""Messages whose handling has failed, as records of another topic: a retry topic, or a topic for dead letters. Pure.

Key and value are unchanged. The message's headers follow, and headers about the failure, as text:

    __sarameya.errors.topic, .partition, .offset      the message's place in the topic that it was first written to
    __sarameya.errors.timestamp                       its timestamp in milliseconds; omitted if it has none
    __sarameya.errors.group                           the group that could not handle it
    __sarameya.errors.attempts                        number of attempts so far, in all topics
    __sarameya.errors.exception.class, .message, .stacktrace   the last failure
    __sarameya.retry.due                              in a retry topic: when to try again, in milliseconds since 1970
    __sarameya.redriven                               how often the message was sent back from a topic for dead letters

A record's timestamp is the time of its writing: with the message's own one, retention could delete it at once.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import attrs

from sarameya.model import NO_TIMESTAMP, Headers, Message

ERRORS = "__sarameya.errors."
DUE = "__sarameya.retry.due"
REDRIVEN = "__sarameya.redriven"
_CONNECT = "__connect.errors."
_OURS = (ERRORS, DUE, _CONNECT)
_MOST_STACK = 8_000
"""Characters of a stack that are kept: the last ones."""
_MOST_MESSAGE = 2_000


@attrs.frozen(slots=True)
class Origin:
    """Place where a message was first written, and the number of earlier attempts at it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    attempts: int = 0
    due: int | None = None
    """When to handle it, in milliseconds since 1970; None: now."""

    @classmethod
    def of(cls, message: Message) -> Origin:
        """Return the origin of a message: what its headers say if it is from a retry topic, or its own place."""
        found = {name: (value or b"").decode(errors="replace") for name, value in message.headers}
        if DUE not in found:
            return cls(message.topic, message.partition, message.offset, message.timestamp)
        try:
            return cls(
                found[f"{ERRORS}topic"],
                int(found[f"{ERRORS}partition"]),
                int(found[f"{ERRORS}offset"]),
                int(found.get(f"{ERRORS}timestamp", NO_TIMESTAMP)),
                int(found[f"{ERRORS}attempts"]),
                int(found[DUE]),
            )
        except (KeyError, ValueError):  # not written by this module
            return cls(message.topic, message.partition, message.offset, message.timestamp)

    def restore(self, message: Message) -> Message:
        """Return the message as it was first written."""
        if self.due is None:
            return message
        return message.replace(
            topic=self.topic,
            partition=self.partition,
            offset=self.offset,
            timestamp=self.timestamp,
            headers=own_headers(message),
        )


@attrs.frozen(slots=True)
class FailedMessage:
    """A message whose handling has failed for good.

    Attributes:
        message: The message, as it was first written.
        error: The exception of the last attempt.
        attempts: Number of attempts, in all topics.
        group: The group that could not handle it.
    """

    message: Message
    error: Exception
    attempts: int
    group: str

    def headers(self, *, due: int | None = None, like_connect: bool = False) -> Headers:
        """Return the headers of the record: those of the message, and those about the failure.

        Args:
            due: For a retry topic: when to try again, in milliseconds since 1970.
            like_connect: Use the names of Kafka Connect's dead letters (`__connect.errors.*`).
        """
        told = self._connect() if like_connect else self._told()
        if due is not None:
            told = (*told, (DUE, str(due)))
        return (*own_headers(self.message), *((name, text.encode(errors="replace")) for name, text in told))

    def _told(self) -> tuple[tuple[str, str], ...]:
        return tuple((ERRORS + name, text) for name, text in self._facts())

    def _connect(self) -> tuple[tuple[str, str], ...]:
        names = {"group": "connector.name", "exception.class": "exception.class.name"}
        told = ((_CONNECT + names.get(name, name), text) for name, text in self._facts() if name != "attempts")
        return (*told, (f"{_CONNECT}stage", "TASK_PUT"), (f"{_CONNECT}task.id", "0"))

    def _facts(self) -> Iterator[tuple[str, str]]:
        message, error = self.message, self.error
        yield "topic", message.topic
        yield "partition", str(message.partition)
        yield "offset", str(message.offset)
        if message.timestamp != NO_TIMESTAMP:
            yield "timestamp", str(message.timestamp)
        yield "group", self.group
        yield "attempts", str(self.attempts)
        yield "exception.class", f"{type(error).__module__}.{type(error).__qualname__}"
        yield "exception.message", str(error)[:_MOST_MESSAGE]
        yield "exception.stacktrace", "".join(traceback.format_exception(error))[-_MOST_STACK:]


def own_headers(message: Message) -> Headers:
    """Return the headers of a message without those about failures."""
    return tuple((name, value) for name, value in message.headers if not name.startswith(_OURS))
