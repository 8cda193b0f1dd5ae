"""Requests `/status.json` of members' services, with h11 on trio.

Only the operator's endpoints are asked: the URLs of `--member`, and with `--member-port` that port of the addresses at
which Kafka sees members. No answer can redirect the dashboard, hold it up or fill its memory: redirections are not
followed, no proxy of the environment is asked, and time, size and number of requests are limited.
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

_PATIENCE = 3.0
"""Seconds for one endpoint to answer."""
_ROUND = 15.0
"""Seconds for all endpoints."""
_AT_A_TIME = 16
_LARGEST = 2**24
"""Bytes of an answer: the size for some ten thousand partitions."""
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
                refused[f"{host[:100]}:{self.port}"] = f"no status: {why}, and is not requested"
        return list(dict.fromkeys(found)), refused


def _refusal(host: str) -> str | None:
    """Return why a host is not requested, or None.

    Brokers report the addresses that members come from. A name could lead anywhere, and so could a link-local address:
    a cloud's secrets are at one.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return "its host, as Kafka reports it, is no address"
    if getattr(address, "ipv4_mapped", None) is not None:
        return "its address is of a kind that no member has"
    if address.is_link_local or address.is_multicast or address.is_unspecified or str(address) == "255.255.255.255":
        return "its address is of a kind that no member has"
    return None


async def fetch_documents(urls: Iterable[str], group: str) -> dict[str, Document | str]:
    """Return the document of each endpoint, or why there is no status of a member of the group."""
    wanted = list(urls)
    # In the order in which they were named.
    late = f"no status: not requested within {_ROUND:.0f} s"
    found: dict[str, Document | str] = dict.fromkeys(map(place, wanted), late)
    limit, deadline = trio.CapacityLimiter(_AT_A_TIME), trio.current_time() + _ROUND

    async def ask(url: str) -> None:
        with trio.CancelScope(deadline=deadline):
            async with limit:
                found[place(url)] = await _ask(url, group)

    async with trio.open_nursery() as nursery:
        for url in wanted:
            nursery.start_soon(ask, url)
    return found


def place(url: str) -> str:
    """Return the name of an endpoint: its host and port, and its path if it has one."""
    parts = urlsplit(url)
    return parts.netloc + parts.path.rstrip("/")


async def _ask(url: str, group: str) -> Document | str:
    try:
        with trio.fail_after(_PATIENCE):
            status, body = await _get(url)
    except trio.TooSlowError:
        return f"no status: its endpoint has not answered within {_PATIENCE:.0f} s"
    except h11.RemoteProtocolError:
        return "no status: the endpoint's answer is no HTTP"
    except (OSError, trio.BrokenResourceError) as error:
        return f"no status: its endpoint does not answer: {why_not_connected(error)}"
    if status != HTTPStatus.OK:
        return f"no status: its endpoint answers {_status_text(status)}"
    if body is None:
        return f"no status: its endpoint answers more than {_LARGEST // 2**20} MiB"
    return parse_document(body, group)


async def _get(url: str) -> tuple[int, bytes | None]:
    """Return the status and the body: None for one that is too large, empty with another status than 200."""
    parts = urlsplit(url)
    http = h11.Connection(h11.CLIENT)
    about = [("Host", parts.netloc), ("Accept", "application/json"), ("Connection", "close")]
    asked = h11.Request(method="GET", target=f"{parts.path.rstrip('/')}/status.json", headers=about)
    async with await _open(parts.scheme, str(parts.hostname), parts.port) as stream:
        await stream.send_all((http.send(asked) or b"") + (http.send(h11.EndOfMessage()) or b""))
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
            if len(body) > _LARGEST:
                return status, None


async def _open(scheme: str, host: str, port: int | None) -> trio.abc.Stream:
    """Connect. Raises OSError."""
    if scheme == "https":
        return await trio.open_ssl_over_tcp_stream(host, port or 443, https_compatible=True)
    return await trio.open_tcp_stream(host, port or 80)


def _status_text(status: int) -> str:
    """Return the status with its words, if HTTP has any for it."""
    try:
        words = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        words = str(status)
    return f"{words}, which is not followed" if 300 <= status < 400 else words
