"""Host names that requests may use (the `Host` header), against DNS rebinding. Pure, but for the ASGI middleware.

A page from elsewhere could read these through a name of its own that leads here. Addresses are allowed, and names that
only this machine or its network can give; the operator allows others. A request without a name is allowed (a load
balancer's probe in HTTP/1.0): no browser sends one.
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
    "the pages are not served by this name: use an address, or name it in [service] http_hosts "
    "(of `sarameya dashboard`: --http-host)\n"
)


@attrs.frozen(slots=True)
class AllowedHosts:
    """Host names that requests may use: this machine's own, and those in `named`.

    The operator's names are whole names, `*.example.com` for all below a domain, or `*` for any.
    """

    is_local: bool = False
    """The pages listen on this machine alone. Only its own names are allowed then."""
    named: Collection[str] = ()
    own: str = attrs.field(factory=socket.gethostname)
    """The name of this machine."""

    @classmethod
    def of(cls, address: str, named: Collection[str] = ()) -> AllowedHosts:
        """Return the names for pages that listen at HOST:PORT."""
        return cls(_is_loopback(address.rpartition(":")[0].strip("[]")), named)

    def let_in(self, header: str) -> bool:
        """Return whether requests with this `Host` header are allowed."""
        found = _HOST.fullmatch(header)
        if found is None:
            return False
        name = (found["v6"] or found["name"]).lower().removesuffix(".")
        if name in _LOOPBACK or any(_matches(pattern.lower(), name) for pattern in self.named):
            return True
        # A browser is led to a name without a dot by its own network alone.
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
        if host is None or self._names.let_in(host):
            await self._app(scope, receive, send)
        else:
            await PlainTextResponse(_REFUSED, status_code=400)(scope, receive, send)
