"""Messages whose handling has failed, as records of another topic: a retry topic, or a topic for dead letters. Pure.

`FailedMessage` writes the headers. `LetterOrigin` reads them in a retry topic, `Letter` in a topic for dead letters.

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
_TO_CONNECT = {"group": "connector.name", "exception.class": "exception.class.name"}
"""Names that Kafka Connect has for the same."""
_OF_CONNECT = {theirs: ours for ours, theirs in _TO_CONNECT.items()}
_OURS = (ERRORS, DUE, _CONNECT)
_MOST_STACK = 8_000
"""Characters of a stack that are kept: the last ones."""
_MOST_MESSAGE = 2_000
_BRIEF_MESSAGE = 100


@attrs.frozen(slots=True)
class LetterOrigin:
    """Place where a message was first written, and the number of earlier attempts at it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    group: str = ""
    """The group that could not handle it; empty if it has not failed yet."""
    attempts: int = 0
    due: int | None = None
    """When to handle it, in milliseconds since 1970; None: now."""

    @classmethod
    def of(cls, message: Message) -> LetterOrigin:
        """Return the origin of a message: what its headers say if it is from a retry topic, or its own place."""
        found = {name: (value or b"").decode(errors="replace") for name, value in message.headers}
        if DUE not in found:
            return cls.at(message)
        numbers = {name: _number(found.get(f"{ERRORS}{name}", "")) for name in ("partition", "offset", "attempts")}
        partition, offset, attempts, due = *numbers.values(), _number(found[DUE])
        topic = found.get(f"{ERRORS}topic")
        if topic is None or partition is None or offset is None or attempts is None or due is None:
            return cls.at(message)  # not written by this module
        timestamp = _number(found.get(f"{ERRORS}timestamp", ""))
        timestamp = NO_TIMESTAMP if timestamp is None else timestamp
        return cls(topic, partition, offset, timestamp, found.get(f"{ERRORS}group", ""), attempts, due)

    @classmethod
    def at(cls, message: Message) -> LetterOrigin:
        """Return the place of a message itself, whatever its headers say."""
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

    def headers(self, *, due: int | None = None, like_connect: bool = False, brief: bool = False) -> Headers:
        """Return the headers of the record: those of the message, and those about the failure.

        Args:
            due: For a retry topic: when to try again, in milliseconds since 1970.
            like_connect: Use the names of Kafka Connect's dead letters (`__connect.errors.*`).
            brief: Leave out the stack, and most of a long text, for a record that would be too large.
        """
        ours = self._connect(brief) if like_connect else self._ours(brief)
        if due is not None:
            ours = (*ours, (DUE, str(due)))
        return (*own_headers(self.message), *((name, text.encode(errors="replace")) for name, text in ours))

    def _ours(self, brief: bool) -> tuple[tuple[str, str], ...]:
        return tuple((ERRORS + name, text) for name, text in self._facts(brief))

    def _connect(self, brief: bool) -> tuple[tuple[str, str], ...]:
        facts = self._facts(brief)
        theirs = ((_CONNECT + _TO_CONNECT.get(name, name), text) for name, text in facts if name != "attempts")
        return (*theirs, (f"{_CONNECT}stage", "TASK_PUT"), (f"{_CONNECT}task.id", "0"))

    def _facts(self, brief: bool) -> Iterator[tuple[str, str]]:
        message, error = self.message, self.error
        yield "topic", message.topic
        yield "partition", str(message.partition)
        yield "offset", str(message.offset)
        if message.timestamp != NO_TIMESTAMP:
            yield "timestamp", str(message.timestamp)
        yield "group", self.group
        yield "attempts", str(self.attempts)
        yield "exception.class", f"{type(error).__module__}.{type(error).__qualname__}"
        yield "exception.message", error_text(error)[: _BRIEF_MESSAGE if brief else _MOST_MESSAGE]
        if not brief:
            yield "exception.stacktrace", "".join(traceback.format_exception(error))[-_MOST_STACK:]


def error_text(error: Exception) -> str:
    """Return the text of an exception of a handler, whose own `__str__` may fail."""
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001 - it is the handler's code
        return f"(its text is unknown: __str__ raises {type(failure).__name__})"


def own_headers(message: Message) -> Headers:
    """Return the headers of a message without those about failures."""
    return tuple((name, value) for name, value in message.headers if not name.startswith(_OURS))


@attrs.frozen(slots=True)
class Letter:
    """A message of a topic for dead letters, and what its headers say about the failure.

    The headers may be those of this module, of the Spark sink (the same, without attempts and class), or of Kafka
    Connect. A dead letter may have failed itself, in a handler that reads its topic: only the last failure counts here,
    and the headers about the earlier one are own headers.

    Attributes:
        message: The message, as it is in the topic for dead letters.
        topic: Topic that it was first written to; empty if the headers do not have it.
        partition: Its partition there, if known.
        offset: Its offset there, if known.
        timestamp: Its timestamp there in milliseconds, if known.
        group: Id of the group that could not handle it, or name of the connector; empty if unknown.
        attempts: Number of attempts, if known.
        error_class: Class of the exception, with its module; empty if unknown.
        error_message: Text of the exception; empty if unknown.
        stack: Stack of the exception; empty if unknown.
        further: All other headers about the failure, without prefix.
        redriven: How often the message was sent back.
        own_headers: Headers of the message itself.
    """

    message: Message
    topic: str
    partition: int | None
    offset: int | None
    timestamp: int | None
    group: str
    attempts: int | None
    error_class: str
    error_message: str
    stack: str
    further: tuple[tuple[str, str], ...]
    redriven: int
    own_headers: Headers

    @classmethod
    def of(cls, message: Message) -> Letter:
        """Parse the headers of a message. Anything may be missing or malformed: it is unknown then."""
        facts: dict[str, str] = {}
        begin = len(message.headers)
        redriven = 0
        for index, (name, value) in enumerate(message.headers):
            text = (value or b"").decode(errors="replace")
            if name == REDRIVEN:
                redriven = _number(text) or 0
            elif (prefix := next((p for p in (ERRORS, _CONNECT) if name.startswith(p)), None)) is not None:
                fact = name.removeprefix(prefix)
                if prefix == _CONNECT:
                    fact = _OF_CONNECT.get(fact, fact)
                if fact == "topic":  # each writer begins with it
                    facts, begin = {}, index
                begin = min(begin, index)
                facts[fact] = text
        return cls(
            message,
            topic=facts.pop("topic", ""),
            partition=_number(facts.pop("partition", ""), 2**31),
            offset=_number(facts.pop("offset", "")),
            timestamp=_number(facts.pop("timestamp", "")),
            group=facts.pop("group", ""),
            attempts=_number(facts.pop("attempts", "")),
            error_class=facts.pop("exception.class", ""),
            error_message=facts.pop("exception.message", ""),
            stack=facts.pop("exception.stacktrace", ""),
            further=tuple(facts.items()),
            redriven=redriven,
            own_headers=tuple(
                (name, value)
                for index, (name, value) in enumerate(message.headers)
                if name not in (REDRIVEN, DUE) and (index < begin or not name.startswith(_OURS))
            ),
        )

    def redriven_headers(self) -> Headers:
        """Return the headers of the message when it is sent back: its own, and how often that was done."""
        return (*self.own_headers, (REDRIVEN, str(self.redriven + 1).encode()))

    def retry_headers(self, due: int) -> Headers:
        """Return the headers of the message when it is sent to a retry topic: `handle` gets it as first written.

        Args:
            due: When to handle it, in milliseconds since 1970.

        Raises:
            ValueError: Topic, partition or offset are not known.
        """
        if not self.topic or self.partition is None or self.offset is None:
            raise ValueError("the headers do not say where the message was first written")
        place: dict[str, str | int | None] = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp,
            "group": self.group or None,
            "attempts": self.attempts or 0,
        }
        facts = [(ERRORS + name, str(value)) for name, value in place.items() if value is not None]
        return (*self.redriven_headers(), *((name, text.encode()) for name, text in [*facts, (DUE, str(due))]))


def _number(text: str, limit: int = 2**63) -> int | None:
    """Return a number of a header; None if it is none that Kafka could have written."""
    is_number = text.isascii() and text.isdecimal() and len(text) < 20
    return int(text) if is_number and int(text) < limit else None
