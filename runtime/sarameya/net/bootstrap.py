"""Bootstrap servers: parsing of addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv6Address

from sarameya.errors import ConfigError
from sarameya.protocol.cluster.metadata import Broker

_OPTION = "bootstrap_servers"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9_+.-]*://")
_HOST = re.compile(r"[^\s/,:\[\]]+")


def parse_bootstrap(servers: Iterable[str]) -> list[Broker]:
    """Parse `HOST:PORT` strings, each of which may hold several, separated by commas.

    Args:
        servers: The strings.

    Returns:
        The brokers. Their node ids are negative, since the real ones are not known yet.

    Raises:
        ConfigError: An address is malformed, or there is none. The message names the address.
    """
    given = [servers] if isinstance(servers, str) else list(servers)
    # The message names all addresses: a comma in a password may have split one.
    if any("@" in server for server in given if isinstance(server, str)):
        raise ConfigError(_OPTION, given, "must be HOST:PORT each, without a user or password")
    addresses = [part for server in given for part in (server.split(",") if isinstance(server, str) else [server])]
    if not addresses:
        raise ConfigError(_OPTION, given, "must name at least one HOST:PORT")
    return [_broker(-1 - place, address) for place, address in enumerate(addresses)]


def _broker(node_id: int, address: str) -> Broker:
    if not isinstance(address, str):
        raise ConfigError(_OPTION, address, "must be HOST:PORT, for example localhost:9092")
    if (scheme := _SCHEME.match(address.strip())) is not None:
        raise ConfigError(
            _OPTION, address, f"must be HOST:PORT without {scheme[0]!r}: the protocol is the option security_protocol"
        )
    host, colon, port = address.strip().rpartition(":")
    if not (colon and _is_host(host) and port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise ConfigError(_OPTION, address, "must be HOST:PORT, for example localhost:9092")
    return Broker(node_id, host.strip("[]"), int(port))


def _is_host(host: str) -> bool:
    if _HOST.fullmatch(host):
        return True
    try:
        return IPv6Address(host[1:-1] if host.startswith("[") and host.endswith("]") else host) is not None
    except ValueError:
        return False
