"""Address and credentials of a schema registry. Every check raises ConfigError."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import attrs

from sarameya.errors import ConfigError
from sarameya.option_kinds import any_seconds, as_tuple, from_table


def _urls(value: Any) -> Any:
    return (value,) if isinstance(value, str) else as_tuple(value)


def _check_urls(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, tuple) or not value:
        raise ConfigError(attribute.name, value, "must be the registry's URL, or several of one registry")
    for url in value:
        try:
            parts = urlsplit(url) if isinstance(url, str) else None
            _ = parts.port if parts is not None else None
        except ValueError:  # an IPv6 address without its closing bracket, or a port that is not a number
            parts = None
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(attribute.name, url, "must be a URL that begins with http:// or https://")
        if parts.username is not None or parts.query or parts.fragment:
            raise ConfigError(attribute.name, "(hidden)", "must have no user (use the option username), and no query")


def _check_text(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and (not isinstance(value, str) or not value or not value.isprintable()):
        raise ConfigError(attribute.name, "(hidden)", "must be text on one line, not empty")


def _check_file(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and (not isinstance(value, str) or not Path(value).is_file()):
        raise ConfigError(attribute.name, value, "must be the name of an existing file")


@attrs.frozen(slots=True, kw_only=True)
class RegistryOptions:
    """Options of a registry. Neither `repr` nor errors show a password or a token."""

    url: tuple[str, ...] = attrs.field(converter=_urls, validator=_check_urls)
    """Base URL (`http://registry:8081`), or several of one registry, tried one after the other."""
    username: str | None = attrs.field(default=None, validator=_check_text)
    password: str | None = attrs.field(default=None, validator=_check_text, repr=False)
    token: str | None = attrs.field(default=None, validator=_check_text, repr=False)
    """Bearer token, instead of username and password. Must be ASCII, since it is sent in an HTTP header."""
    ca_file: str | None = attrs.field(default=None, validator=_check_file)
    """PEM file of the CA certificates that verify the registry's certificate; by default those of the system."""
    timeout: float = attrs.field(default=10.0, validator=any_seconds)
    """Seconds for one response."""

    def __attrs_post_init__(self) -> None:
        if (self.username is None) != (self.password is None):
            raise ConfigError("username", self.username, "must be set together with password, or not at all")
        if self.token is not None and not self.token.isascii():
            raise ConfigError("token", "(hidden)", "must consist of ASCII characters")
        if self.username is not None and self.token is not None:
            raise ConfigError("token", "(hidden)", "cannot be combined with username and password")
        if self.username is not None and ":" in self.username:
            raise ConfigError("username", self.username, "must have no colon in it")

    @classmethod
    def from_options(cls, options: Any, prefix: str = "registry.") -> Self:
        """Create options from a table of an app file. Errors show option names with `prefix`.

        Raises:
            ConfigError: An option is unknown, missing or invalid.
        """
        return from_table(cls, options, prefix)
