"""The HTTP server of the pages, on hypercorn."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import trio
from hypercorn.config import Config

from sarameya.service.web.connections import Connections
from sarameya.service.web.host_check import AllowedHosts
from sarameya.service.web.listen_error import listen_error
from sarameya.service.web.routes import make_routes
from sarameya.service.web.status_board import PageSource

_BACKLOG = 128
"""Maximum number of connections that wait to be accepted."""
_STALLED = 5.0
"""Seconds after which a client that does not read its response is disconnected."""


@asynccontextmanager
async def serve_pages(
    board: PageSource, address: str, names: Collection[str] = (), *, option: str = "service.http"
) -> AsyncIterator[str]:
    """Serve the board for the length of the block, shielded, so that it shows members that drain. Yield the URL.

    Args:
        board: The content.
        address: HOST:PORT. Port 0 takes a free one.
        names: Host names that requests may use, beside this machine's own.
        option: The option that gives the address, for errors.

    Raises:
        ListenError: The server cannot listen at the address now.
        ConfigError: The server can never listen at the address.
    """
    try:
        listener = await _listening(address)
    except (OSError, UnicodeError) as error:
        raise listen_error(option, address, error) from None
    scope = trio.CancelScope(shield=True)
    connections = Connections(make_routes(board, AllowedHosts.of(address, names)), _config(), stalled_after=_STALLED)

    async def run() -> None:
        with scope:
            async with trio.open_nursery() as nursery, listener:
                nursery.start_soon(board.run)
                await connections.serve(listener)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        try:
            yield _url(listener.socket)
        finally:
            scope.cancel()


def _config() -> Config:
    config = Config()
    config.errorlog = _log()
    config.accesslog = None
    config.include_server_header = False
    return config


def _url(listening: trio.socket.SocketType) -> str:
    host, port, *_ = listening.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _listening(address: str) -> trio.SocketListener:
    """Listen at HOST:PORT.

    Raises:
        OSError: The address is in use or not of this machine.
        UnicodeError: The host is no host name.
    """
    host, _, port = address.rpartition(":")
    (family, kind, protocol, _, where), *_ = await trio.socket.getaddrinfo(
        host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    bound = trio.socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # accepted connections inherit it
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(_STALLED * 1000))
        await bound.bind(where)
        bound.listen(_BACKLOG)
    except BaseException:
        bound.close()
        raise
    return trio.SocketListener(bound)


def _log() -> logging.Logger:
    """Return a logger for warnings. hypercorn's other lines repeat our own."""
    log = logging.getLogger("sarameya.http")
    log.setLevel(logging.WARNING)
    return log
