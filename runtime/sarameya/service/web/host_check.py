"""Host names that requests may use (the `Host` header), against DNS rebinding. Pure, except for the ASGI middleware.

Without this check, a web page of another site could read these pages, if a host name of that site resolves to this
machine. Addresses are allowed, and names that only this machine or its network can define. The operator may allow other
names. A request without a name is allowed (a load balancer's probe in HTTP/1.0): no browser sends such a request.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Collection
from ipaddress import IPv6Address, ip_address

import attrs
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[^\[\]:@/?#\s]+))(?::[0-9]{0,5})?", re.IGNORECASE)
_REFUSED = (
    "requests for this host name are refused: use an address, or add the name to [service] http_hosts "
    "(for `sarameya dashboard`: --http-host)\n"
)


@attrs.frozen(slots=True)
class AllowedHosts:
    """Host names that requests may use: this machine's own, and those in `named`.

    The operator's names are whole names, `*.example.com` for all names below a domain, or `*` for any name.
    """

    is_local: bool = False
    """True if the pages listen only to this machine. Only its own names are allowed then."""
    named: Collection[str] = ()
    own: str = attrs.field(factory=socket.gethostname)
    """The name of this machine."""

    @classmethod
    def of(cls, address: str, named: Collection[str] = ()) -> AllowedHosts:
        """Return the allowed names for pages that listen at `address`, a HOST:PORT."""
        return cls(_is_loopback(address.rpartition(":")[0].strip("[]")), named)

    def allows(self, header: str) -> bool:
        """Return whether requests with this `Host` header are allowed."""
        found = _HOST.fullmatch(header)
        if found is None:
            return False
        name = (found["v6"] or found["name"]).lower().removesuffix(".")
        if name in _LOOPBACK or any(_matches(pattern.lower(), name) for pattern in self.named):
            return True
        # A name without a dot can be defined only by the browser's own network.
        return not self.is_local and (_is_address(name) or "." not in name or name == self.own.lower())


def _matches(pattern: str, name: str) -> bool:
    return pattern in ("*", name) or (pattern.startswith("*.") and name.endswith(pattern[1:]))


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _is_address(name: str) -> bool:
    try:
        address = ip_address(name)
    except ValueError:
        return False
    return not (isinstance(address, IPv6Address) and address.scope_id)


class HostCheck:
    """ASGI middleware that answers requests for other host names with 400."""

    def __init__(self, app: ASGIApp, names: AllowedHosts) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = None if scope["type"] == "lifespan" else Headers(scope=scope).get("host")
        if host is None or self._names.allows(host):
            await self._app(scope, receive, send)
        else:
            await PlainTextResponse(_REFUSED, status_code=400)(scope, receive, send)
