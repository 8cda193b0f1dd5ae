"""Options of a message handler, and their checks."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import attrs

from sarameya.errors import ConfigError, DecodeError
from sarameya.model import TOPIC_NAME
from sarameya.option_kinds import MOST_SECONDS, as_tuple, boolean, number, whole

Ordering: TypeAlias = Literal["partition", "key", "none"]
"""Which messages of a partition wait for each other: all, those with the same key, or none."""

Exceptions: TypeAlias = type[Exception] | tuple[type[Exception], ...]
"""A class of exceptions, or a tuple of classes."""

ORDERINGS: tuple[Ordering, ...] = ("partition", "key", "none")


def _exceptions(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    kinds = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        raise ConfigError(attribute.name, value, "must be a class of exceptions, or a tuple of them")
    if any(issubclass(kind, DecodeError) for kind in kinds):
        raise ConfigError(attribute.name, value, "must not have DecodeError: the bytes of a message stay the same")


@attrs.frozen(slots=True)
class Retry:
    """Retries of a message whose handling fails, in place: the messages behind it in its order wait.

    The delay before retry n is `backoff` · 2^(n-1) seconds, ±20 % of jitter, and at most `backoff_max`.

    Attributes:
        attempts: Maximum number of attempts, including the first one.
        backoff: Seconds before the first retry.
        backoff_max: Maximum of seconds before a retry.
        on: Exceptions that are retried; a class or a tuple. Other exceptions fail at once.
    """

    attempts: int = attrs.field(default=3, validator=whole(1))
    backoff: float = attrs.field(default=0.1, validator=number(0, 86_400))
    backoff_max: float = attrs.field(default=30.0, validator=number(0, 86_400))
    on: Exceptions = attrs.field(default=Exception, validator=_exceptions)

    def __attrs_post_init__(self) -> None:
        if self.backoff > self.backoff_max:
            raise ConfigError("backoff", self.backoff, f"must be at most backoff_max, which is {self.backoff_max:g}")


def _check_delays(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    is_valid = (
        isinstance(value, tuple)
        and value
        and all(
            isinstance(delay, int | float) and not isinstance(delay, bool) and 0 < delay <= MOST_SECONDS
            for delay in value
        )
    )
    if not is_valid:
        raise ConfigError(attribute.name, value, "must be a list of numbers of seconds above 0, for example [60, 600]")
    if len({delay_text(delay) for delay in value}) < len(value):
        raise ConfigError(attribute.name, value, "must be different delays: each one has a topic of its own")


def _template(*allowed: str, required: tuple[str, ...] = ()) -> Any:
    def check(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        try:
            text = value.format(**dict.fromkeys(allowed, "x"))
        except (AttributeError, LookupError, ValueError):
            text = ""
        missing = [f"{{{name}}}" for name in required if f"{{{name}}}" not in str(value)]
        if not text or missing:
            places = ", ".join(f"{{{name}}}" for name in allowed)
            needs = f" with {' and '.join(missing)} in it" if missing else ""
            raise ConfigError(attribute.name, value, f"must be the name of a topic{needs}; it may have {places}")

    return check


def _named(template: str, **places: str) -> str:
    name = template.format(**places)
    if not TOPIC_NAME.fullmatch(name):
        raise ConfigError(
            "topic", name, "is no name of a topic: it has 1 to 249 of the characters a-z A-Z 0-9 . _ -; set a template"
        )
    return name


def delay_text(seconds: float) -> str:
    """Return a delay as it stands in the name of a topic: `90s`, `1m`, `2h`, `1d`."""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s"


_RETRY_TOPIC = _template("topic", "group", "delay", required=("topic", "delay"))


@attrs.frozen(slots=True)
class RetryTopics:
    """Topics for messages that are tried again later, after the attempts in place: one for each delay.

    The messages behind a failed one do not wait. So a message may be handled after later ones of its key. A message
    that is not due pauses its partition of the retry topic, without polling; all of its messages have the same delay.

    `handle` gets the message as it was first written, with its own topic, partition and offset.

    Attributes:
        delays: Seconds before each further attempt, one tier after the other.
        on: Exceptions that are tried again later; a class or a tuple.
        topic: Name of a tier's topic, with `{topic}`, `{group}` and `{delay}`.
        create: Create topics that do not exist, with as many partitions as the topic that they belong to; if False,
            a missing one is an error.
    """

    delays: tuple[float, ...] = attrs.field(converter=as_tuple, validator=_check_delays)
    on: Exceptions = attrs.field(default=Exception, validator=_exceptions)
    topic: str = attrs.field(default="{topic}.{group}.retry.{delay}", validator=_RETRY_TOPIC)
    create: bool = attrs.field(default=True, validator=boolean)

    def name_for(self, topic: str, group: str, tier: int) -> str:
        """Return the name of a tier's topic.

        Args:
            topic: The topic that messages were first written to.
            group: Id of the group.
            tier: Index of the delay.

        Raises:
            ConfigError: It would be no name of a topic.
        """
        return _named(self.topic, topic=topic, group=group, delay=delay_text(self.delays[tier]))

    def tier_after(self, read: str, topic: str, group: str) -> int | None:
        """Return the next tier of a message that was read from the topic `read`; None after the last tier."""
        if read == topic:
            return 0
        names = [self.name_for(topic, group, tier) for tier in range(len(self.delays))]
        tier = names.index(read) + 1 if read in names else 0
        return tier if tier < len(names) else None


@attrs.frozen(slots=True)
class DeadLetterTopic:
    """A topic for messages whose handling has failed for good. `sarameya letters` shows them, and sends them back.

    Key, value and headers are unchanged; headers about the failure follow (see `handling/letters.py`). While the topic
    cannot be written to, the message waits, its partition or its key with it, and nothing of them is committed.

    Attributes:
        topic: Name of the topic; may contain `{topic}` and `{group}`.
        create: Create the topic if it does not exist; if False, a missing one is an error.
        connect_headers: Name the headers as Kafka Connect does (`__connect.errors.*`).
    """

    topic: str = attrs.field(default="{topic}.{group}.dead", validator=_template("topic", "group"))
    create: bool = attrs.field(default=True, validator=boolean)
    connect_headers: bool = attrs.field(default=False, validator=boolean)

    def name_for(self, topic: str, group: str) -> str:
        """Return the name of the topic for messages of `topic`.

        Raises:
            ConfigError: It would be no name of a topic.
        """
        return _named(self.topic, topic=topic, group=group)


@attrs.frozen(slots=True)
class CircuitBreaker:
    """Stops handling after several failures in a row, instead of sending every message to the dead letters.

    A message counts once its attempts in place are used up; a batch does not count, but its messages, each alone. After
    `failures` of them, without a success in between, messages wait; every `pause` seconds one of them is tried. The
    first success ends the wait.

    Attributes:
        failures: Number of failed messages in a row, over all partitions of the member.
        pause: Seconds between two tries.
    """

    failures: int = attrs.field(default=10, validator=whole(1))
    pause: float = attrs.field(default=30.0, validator=number(0, 86_400, above=True))


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Check that an option has one of these values.

    Raises:
        ConfigError: It has not.
    """
    if value not in choices:
        raise ConfigError(name, value, f"must be one of {', '.join(map(repr, choices))}")


def check_kind(name: str, value: object, *kinds: type) -> None:
    """Check that an option is an object of one of these classes.

    Raises:
        ConfigError: It is not.
    """
    if not isinstance(value, kinds):
        names = [kind.__name__ for kind in kinds if kind is not type(None)]
        raise ConfigError(name, value, f"must be a {' or '.join(names)}{', or None' * (type(None) in kinds)}")


def check_seconds(name: str, value: object) -> None:
    """Check that an option is None, or a number of seconds above 0.

    Raises:
        ConfigError: It is neither.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
        raise ConfigError(name, value, "must be a number of seconds above 0, or None for no limit")
