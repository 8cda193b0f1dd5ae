"""Options of a message handler, and their checks."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import attrs

from sarameya.errors import ConfigError
from sarameya.option_kinds import number, whole

Ordering: TypeAlias = Literal["partition", "key", "none"]
"""Which messages of a partition wait for each other: all, those with the same key, or none."""

ORDERINGS: tuple[Ordering, ...] = ("partition", "key", "none")


def _exceptions(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    kinds = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        raise ConfigError(attribute.name, value, "must be a class of exceptions, or a tuple of them")


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
    on: type[Exception] | tuple[type[Exception], ...] = attrs.field(default=Exception, validator=_exceptions)


NO_RETRY = Retry(attempts=1)
"""Every failure is final."""


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Check that an option has one of these values.

    Raises:
        ConfigError: It has not.
    """
    if value not in choices:
        raise ConfigError(name, value, f"must be one of {', '.join(map(repr, choices))}")


def check_count(name: str, value: object) -> None:
    """Check that an option is a whole number of at least 1.

    Raises:
        ConfigError: It is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(name, value, "must be a whole number of at least 1")


def check_seconds(name: str, value: object) -> None:
    """Check that an option is None, or a number of seconds above 0.

    Raises:
        ConfigError: It is neither.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
        raise ConfigError(name, value, "must be a number of seconds above 0, or None for no limit")
