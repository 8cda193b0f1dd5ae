"""Serves a board over HTTP, on hypercorn, for as long as the block lasts."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import trio
from hypercorn.config import Config

from sarameya.service.listening import refusal
from sarameya.service.web.app import make_app
from sarameya.service.web.board import Shown
from sarameya.service.web.connections import Connections
from sarameya.service.web.names import Names

_BACKLOG = 128
"""Connections that wait to be accepted."""
_STALLED = 5.0
"""Seconds after which a client that does not take what it is sent is dropped."""


@asynccontextmanager
async def serving(
    board: Shown, address: str, names: Collection[str] = (), *, option: str = "service.http"
) -> AsyncIterator[str]:
    """The board at HOST:PORT (port 0: one that is free), which `option` has said, for who asks by an own name or one of
    `names`; yields the URL. Raises ListenError or ConfigError where that cannot be listened at.

    It is served until the block has been left, shielded: members that drain are seen.
    """
    try:
        listener = await _listening(address)
    except (OSError, UnicodeError) as error:
        raise refusal(option, address, error) from None
    scope = trio.CancelScope(shield=True)
    connections = Connections(make_app(board, Names.of(address, names)), _config(), stalled_after=_STALLED)

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
    """Listen at HOST:PORT. Raises OSError, and UnicodeError for what is no host's name."""
    host, _, port = address.rpartition(":")
    (family, kind, protocol, _, where), *_ = await trio.socket.getaddrinfo(
        host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    bound = trio.socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # connections have it from here
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(_STALLED * 1000))
        await bound.bind(where)
        bound.listen(_BACKLOG)
    except BaseException:
        bound.close()
        raise
    return trio.SocketListener(bound)


def _log() -> logging.Logger:
    """What goes wrong, and nothing else: hypercorn says of itself what we have said."""
    log = logging.getLogger("sarameya.http")
    log.setLevel(logging.WARNING)
    return log
