"""What a client's `.properties` file says: options, and what is given beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import attrs

from sarameya.config.options import Config
from sarameya.config.properties import values_of
from sarameya.config.properties_file import decode, parse_properties
from sarameya.errors import PropertiesError

_SERVERS, _GROUP = "bootstrap.servers", "group.id"


_Made = TypeVar("_Made")


@attrs.frozen(slots=True)
class ClientProperties:
    """A client as Kafka's properties describe one.

    client = ClientProperties.read("client.properties")
    ConsumerGroup(client.bootstrap_servers, client.group_id or "orders", client.config)
    """

    config: Config
    bootstrap_servers: tuple[str, ...] = ()
    """Empty where the properties name none."""
    group_id: str | None = None

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> ClientProperties:
        """From properties by name. Raises PropertiesError, as `Config.from_properties`."""
        servers, group, options = _apart(properties)
        return cls(Config.from_properties(options), servers, group)

    @classmethod
    def read(cls, path: str | Path) -> ClientProperties:
        """From a file in Java's `.properties` syntax, in UTF-8 or Latin-1. Raises PropertiesError, also for a file that
        cannot be read; each line of it begins with the file's name."""
        return _read(path, cls.of)


@attrs.frozen(slots=True)
class ClientValues:
    """What properties say of a client, to which others say more: the options may lack some that they go with."""

    options: Mapping[str, Any] = attrs.field(repr=False)  # there may be secrets in it
    """Of `Config`, by name."""
    bootstrap_servers: tuple[str, ...] = ()
    group_id: str | None = None

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> ClientValues:
        """As `ClientProperties.of`."""
        servers, group, options = _apart(properties)
        return cls(values_of(Config, options), servers, group)

    @classmethod
    def read(cls, path: str | Path) -> ClientValues:
        """As `ClientProperties.read`."""
        return _read(path, cls.of)


def _apart(properties: Mapping[str, Any]) -> tuple[tuple[str, ...], str | None, dict[str, Any]]:
    """Where, who, and all else."""
    servers = properties.get(_SERVERS) or ()
    options = {name: value for name, value in properties.items() if name not in (_SERVERS, _GROUP)}
    return tuple(_listed(servers) if isinstance(servers, str) else servers), properties.get(_GROUP), options


def _read(path: str | Path, make: Callable[[Mapping[str, Any]], _Made]) -> _Made:
    try:
        return make(parse_properties(decode(Path(path).read_bytes())))
    except OSError as error:
        problems: tuple[str, ...] = (f"cannot be read: {error.strerror}",)
    except PropertiesError as error:
        problems = error.problems
    except ValueError as error:
        problems = (str(error),)
    raise PropertiesError(tuple(f"{path}: {problem}" for problem in problems))


def _listed(text: str) -> list[str]:
    return [server.strip() for server in text.split(",") if server.strip()]
