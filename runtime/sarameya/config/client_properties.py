"""Clients described by `.properties` files: options, bootstrap servers, group id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import attrs

from sarameya.config.options import Config
from sarameya.config.properties import listed, values_of
from sarameya.config.properties_file import decode, parse_properties
from sarameya.errors import PropertiesError

_SERVERS, _GROUP = "bootstrap.servers", "group.id"


_Client = TypeVar("_Client")


@attrs.frozen(slots=True)
class ClientProperties:
    """Client described by Kafka's properties.

    client = ClientProperties.read("client.properties")
    ConsumerGroup(client.bootstrap_servers, client.group_id or "orders", client.config)
    """

    config: Config
    bootstrap_servers: tuple[str, ...] = ()
    """Addresses; empty if the properties have none."""
    group_id: str | None = None

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> ClientProperties:
        """Convert properties by name.

        Raises:
            PropertiesError: As for `Config.from_properties`.
        """
        servers, group, options = _split(properties)
        return cls(Config.from_properties(options), servers, group)

    @classmethod
    def read(cls, path: str | Path) -> ClientProperties:
        """Read a file in Java's `.properties` syntax, in UTF-8 or Latin-1.

        Raises:
            PropertiesError: The file cannot be read, or has mistakes. Each line of the message starts with the file's
                name.
        """
        return _read(path, cls.of)


@attrs.frozen(slots=True)
class ClientValues:
    """Incomplete description of a client: the caller adds the options that are missing."""

    options: Mapping[str, Any] = attrs.field(repr=False)  # may contain secrets
    """Options of `Config`, by name."""
    bootstrap_servers: tuple[str, ...] = ()
    group_id: str | None = None

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> ClientValues:
        """Convert properties, as `ClientProperties.of` does."""
        servers, group, options = _split(properties)
        return cls(values_of(Config, options), servers, group)

    @classmethod
    def read(cls, path: str | Path) -> ClientValues:
        """Read a file, as `ClientProperties.read` does."""
        return _read(path, cls.of)


def _split(properties: Mapping[str, Any]) -> tuple[tuple[str, ...], str | None, dict[str, Any]]:
    """Split properties into servers, group, and all others."""
    servers = properties.get(_SERVERS) or ()
    options = {name: value for name, value in properties.items() if name not in (_SERVERS, _GROUP)}
    return tuple(listed(servers) if isinstance(servers, str) else servers), properties.get(_GROUP), options


def _read(path: str | Path, make: Callable[[Mapping[str, Any]], _Client]) -> _Client:
    try:
        return make(parse_properties(decode(Path(path).read_bytes())))
    except OSError as error:
        problems: tuple[str, ...] = (f"cannot be read: {error.strerror}",)
    except PropertiesError as error:
        problems = error.problems
    except ValueError as error:
        problems = (str(error),)
    raise PropertiesError(tuple(f"{path}: {problem}" for problem in problems))
