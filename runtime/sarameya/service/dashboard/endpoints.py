"""Requests `/status.json` of members' services, with h11 on trio.

Requests go only to the operator's endpoints: to the URLs of `--member`, and with `--member-port` to this port of the
members' addresses, as Kafka reports them. No answer can redirect the dashboard, block it or fill its memory: it follows
no redirections, uses no proxy of the environment, and limits the time, the size and the number of requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import urlsplit

import attrs
import h11
import trio

from sarameya.net.transport import why_not_connected
from sarameya.protocol.cluster.described_groups import DescribedGroup
from sarameya.service.dashboard.endpoint_document import Document, parse_document
from sarameya.service.dashboard.group_document import host_of

_TIMEOUT = 3.0
"""Seconds for one endpoint to answer."""
_TOTAL_TIMEOUT = 15.0
"""Seconds for all endpoints."""
_MAX_CONCURRENT = 16
_MAX_SIZE = 2**24
"""Bytes of an answer, enough for some ten thousand partitions."""
_CHUNK = 65536


@attrs.frozen(slots=True)
class MemberEndpoints:
    """Endpoints of members' services: these URLs, and this port of each member's address."""

    urls: tuple[str, ...] = ()
    port: int | None = None

    def of(self, group: DescribedGroup) -> tuple[list[str], dict[str, str]]:
        """Return the URLs, each once, and the reasons why other hosts of members are not requested."""
        found, refused = list(self.urls), {}
        for host in dict.fromkeys(host_of(member) for member in group.members) if self.port else ():
            if (why := _refusal(host)) is None:
                found.append(f"http://{f'[{host}]' if ':' in host else host}:{self.port}")
            else:
                refused[f"{host[:100]}:{self.port}"] = f"no status: {why}, so it is not requested"
        return list(dict.fromkeys(found)), refused


def _refusal(host: str) -> str | None:
    """Return why a host is not requested, or None.

    Brokers report the addresses from which members connect, and never names. A name could lead to any host. A
    link-local address is refused, since clouds publish an instance's credentials at such an address.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return "Kafka reports no IP address for it"
    if getattr(address, "ipv4_mapped", None) is not None:
        return "its address is an IPv4 address mapped to IPv6"
    if address.is_link_local or address.is_multicast or address.is_unspecified or str(address) == "255.255.255.255":
        return "its address is link-local, multicast, broadcast or unspecified"
    return None


async def fetch_documents(urls: Iterable[str], group: str) -> dict[str, Document | str]:
    """Return the document of each endpoint, or why there is no status of a member of the group."""
    wanted = list(urls)
    late = f"no status: not requested within {_TOTAL_TIMEOUT:.0f} s"
    # Filled in advance, so that the result has the order of the URLs.
    found: dict[str, Document | str] = dict.fromkeys(map(endpoint_name, wanted), late)
    limit, deadline = trio.CapacityLimiter(_MAX_CONCURRENT), trio.current_time() + _TOTAL_TIMEOUT

    async def fetch(url: str) -> None:
        with trio.CancelScope(deadline=deadline):
            async with limit:
                found[endpoint_name(url)] = await _fetch(url, group)

    async with trio.open_nursery() as nursery:
        for url in wanted:
            nursery.start_soon(fetch, url)
    return found


def endpoint_name(url: str) -> str:
    """Return the name of an endpoint: its host and port, and its path if it has one."""
    parts = urlsplit(url)
    return parts.netloc + parts.path.rstrip("/")


async def _fetch(url: str, group: str) -> Document | str:
    try:
        with trio.fail_after(_TIMEOUT):
            status, body = await _get(url)
    except trio.TooSlowError:
        return f"no status: its endpoint has not answered within {_TIMEOUT:.0f} s"
    except h11.RemoteProtocolError:
        return "no status: the endpoint's answer is no HTTP"
    except (OSError, trio.BrokenResourceError) as error:
        return f"no status: its endpoint does not answer: {why_not_connected(error)}"
    if status != HTTPStatus.OK:
        return f"no status: its endpoint answers {_status_text(status)}"
    if body is None:
        return f"no status: its endpoint answers more than {_MAX_SIZE // 2**20} MiB"
    return parse_document(body, group)


async def _get(url: str) -> tuple[int, bytes | None]:
    """Return the status and the body. The body is None if it is too large, and empty if the status is not 200."""
    parts = urlsplit(url)
    http = h11.Connection(h11.CLIENT)
    headers = [("Host", parts.netloc), ("Accept", "application/json"), ("Connection", "close")]
    request = h11.Request(method="GET", target=f"{parts.path.rstrip('/')}/status.json", headers=headers)
    async with await _open(parts.scheme, str(parts.hostname), parts.port) as stream:
        await stream.send_all((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
        status, body = 0, bytearray()
        while True:
            match event := http.next_event():
                case h11.NEED_DATA:
                    http.receive_data(bytes(await stream.receive_some(_CHUNK)))
                case h11.Response():
                    status = event.status_code
                case h11.Data():
                    body += event.data
                case h11.EndOfMessage():
                    return status, bytes(body)
                case h11.ConnectionClosed():
                    raise h11.RemoteProtocolError("it has closed the connection")
            if status not in (0, HTTPStatus.OK):
                return status, b""
            if len(body) > _MAX_SIZE:
                return status, None


async def _open(scheme: str, host: str, port: int | None) -> trio.abc.Stream:
    """Connect to an endpoint.

    Raises:
        OSError: The connection fails.
    """
    if scheme == "https":
        return await trio.open_ssl_over_tcp_stream(host, port or 443, https_compatible=True)
    return await trio.open_tcp_stream(host, port or 80)


def _status_text(status: int) -> str:
    """Return the status with its phrase, if HTTP defines it."""
    try:
        text = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        text = str(status)
    return f"{text}, which is not followed" if 300 <= status < 400 else text
