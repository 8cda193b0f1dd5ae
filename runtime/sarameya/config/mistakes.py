"""All mistakes in options at once. Creating a `Config` raises only the first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import attrs

from sarameya.config.options import Config, TopicConfig, conflicts
from sarameya.config.properties import no_such_option
from sarameya.errors import ConfigError
from sarameya.option_kinds import allowed


def mistakes(values: Mapping[str, Any]) -> Iterator[ConfigError]:
    """Yield the mistakes in single options. Conflicts between options are not checked.

    Args:
        values: Options by name, as for `Config.from_mapping`.
    """
    yield from _mistakes(Config, values, "")


def conflicts_of(values: Mapping[str, Any]) -> Iterator[ConfigError]:
    """Yield the first conflict of each option with other options. Each value must be valid by itself."""
    defaults = {name: field.default for name, field in attrs.fields_dict(Config).items()}
    reported: set[str] = set()
    for error in conflicts(SimpleNamespace(**{**defaults, **values})):
        if error.option not in reported:
            reported.add(error.option)
            yield error


def _mistakes(options: type[attrs.AttrsInstance], values: Mapping[str, Any], prefix: str) -> Iterator[ConfigError]:
    fields = attrs.fields_dict(options)
    for name, value in values.items():
        if name not in fields:
            yield ConfigError(prefix + name, value, no_such_option(options, name, value))
        elif name == "topics" and (of_topics := list(_mistakes_of_topics(value, f"{prefix}topics."))):
            yield from of_topics
        else:
            try:
                allowed(fields[name], value)
            except ConfigError as error:
                yield ConfigError(prefix + error.option, error.value, error.allowed)


def _mistakes_of_topics(topics: Any, prefix: str) -> Iterator[ConfigError]:
    """Yield the mistakes in the options of single topics."""
    for topic, values in topics.items() if isinstance(topics, Mapping) else ():
        if isinstance(values, Mapping):
            yield from _mistakes(TopicConfig, values, f"{prefix}{topic}.")
