"""Asks members' services what they say of themselves at `/status.json`, in h11 on trio.

Only what the operator has named is asked: the URLs of `--member`, and with `--member-port` that port of the addresses
that Kafka says members are at. Nothing that answers can send us elsewhere, keep us or fill our memory: redirections are
not followed, no proxy of the environment's is asked, and time, size and number at a time have bounds.
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
from sarameya.service.dashboard.merging import host_of
from sarameya.service.dashboard.reading import Document, status_of

_PATIENCE = 3.0
"""Seconds for one to have answered."""
_ROUND = 15.0
"""Seconds for all of them."""
_AT_A_TIME = 16
_LARGEST = 2**24
"""Bytes of an answer: what some ten thousand partitions come to."""
_CHUNK = 65536


@attrs.frozen(slots=True)
class Endpoints:
    """Where members' services are: at these URLs, and at this port of each member's address."""

    urls: tuple[str, ...] = ()
    port: int | None = None

    def of(self, group: DescribedGroup) -> tuple[list[str], dict[str, str]]:
        """The URLs, each once, and why other hosts of members are not asked, by these."""
        found, refused = list(self.urls), {}
        for host in dict.fromkeys(host_of(member) for member in group.members) if self.port else ():
            if (why := _refusal(host)) is None:
                found.append(f"http://{f'[{host}]' if ':' in host else host}:{self.port}")
            else:
                refused[f"{host[:100]}:{self.port}"] = f"no status: {why}, and is not asked"
        return list(dict.fromkeys(found)), refused


def _refusal(host: str) -> str | None:
    """Brokers tell the addresses that members come from. A name could lead anywhere, and so could a link-local address:
    a cloud's secrets are at one."""
    try:
        address = ip_address(host)
    except ValueError:
        return "what Kafka tells of its host is no address"
    if getattr(address, "ipv4_mapped", None) is not None:
        return "its address is of a kind that no member has"
    if address.is_link_local or address.is_multicast or address.is_unspecified or str(address) == "255.255.255.255":
        return "its address is of a kind that no member has"
    return None


async def ask_all(urls: Iterable[str], group: str) -> dict[str, Document | str]:
    """The document of each by where it is, or why there is no status of a member of the group."""
    wanted = list(urls)
    # In the order in which they were named.
    found: dict[str, Document | str] = dict.fromkeys(map(place, wanted), f"no status: not asked within {_ROUND:.0f} s")
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
    """How an endpoint is called: its host and port, and its path where it has one."""
    parts = urlsplit(url)
    return parts.netloc + parts.path.rstrip("/")


async def _ask(url: str, group: str) -> Document | str:
    try:
        with trio.fail_after(_PATIENCE):
            status, body = await _get(url)
    except trio.TooSlowError:
        return f"no status: its endpoint has not answered within {_PATIENCE:.0f} s"
    except h11.RemoteProtocolError:
        return "no status: what its endpoint answers is no HTTP"
    except (OSError, trio.BrokenResourceError) as error:
        return f"no status: its endpoint does not answer: {why_not_connected(error)}"
    if status != HTTPStatus.OK:
        return f"no status: its endpoint answers {_told(status)}"
    if body is None:
        return f"no status: its endpoint answers more than {_LARGEST // 2**20} MiB"
    return status_of(body, group)


async def _get(url: str) -> tuple[int, bytes | None]:
    """The status and the body, None for one that is too large; nothing of one with another status than 200."""
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
    """Raises OSError."""
    if scheme == "https":
        return await trio.open_ssl_over_tcp_stream(host, port or 443, https_compatible=True)
    return await trio.open_tcp_stream(host, port or 80)


def _told(status: int) -> str:
    """With its words where it has some of its own; a redirection leads nowhere."""
    try:
        words = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        words = str(status)
    return f"{words}, which is not followed" if 300 <= status < 400 else words
