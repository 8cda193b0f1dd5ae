"""Serves a board over HTTP, on hypercorn, for as long as the block lasts."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from sarameya.service.failures import leaves
from sarameya.service.listening import refusal
from sarameya.service.web.app import make_app
from sarameya.service.web.board import Shown
from sarameya.service.web.names import Names
from sarameya.service.web.recent import line_of

logger = logging.getLogger("sarameya")

_PAUSE = 1.0
"""Seconds until what has failed is served anew."""
_STALLED = 5.0
"""Seconds after which a client that takes nothing of what it is sent is given up: hypercorn shields its sending, so
that nothing else would end it, nor the service."""


@asynccontextmanager
async def serving(
    board: Shown, address: str, names: Collection[str] = (), *, option: str = "service.http"
) -> AsyncIterator[str]:
    """The board at HOST:PORT (port 0: one that is free), which `option` has said, for who asks by an own name or one of
    `names`; yields the URL. Raises ListenError or ConfigError where that cannot be listened at.

    It is served until the block has been left, shielded: members that drain are seen.
    """
    try:
        listening = await _listening(address)
    except (OSError, UnicodeError) as error:
        raise refusal(option, address, error) from None
    scope, ready = trio.CancelScope(shield=True), trio.Event()
    app = cast(
        Any, make_app(board, Names.of(address, names))
    )  # Starlette says less of its types than hypercorn asks for

    async def run() -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(board.run)
                await _serve_on(app, listening, ready)

    with listening:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            try:
                await ready.wait()
                yield _url(listening)
            finally:
                scope.cancel()


async def _serve_on(app: Any, listening: socket.socket, ready: trio.Event) -> None:
    """Serve, and anew where hypercorn fails: there are requests that it raises for, and none may end a consumer."""
    while True:
        config = Config()
        # Ours, and not its own at an address: those that it cannot bind it does not close.
        config.bind = [f"fd://{listening.dup().detach()}"]
        config.errorlog = _log()
        config.accesslog = None
        config.include_server_header = False
        config.graceful_timeout = 0.5
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(partial(serve, app, config))
                ready.set()
        except* Exception as group:
            if not ready.is_set():
                raise
            logger.error("the pages' server has failed, and begins anew: %s", line_of(next(leaves(group))))
        await trio.sleep(_PAUSE)


def _url(listening: socket.socket) -> str:
    host, port, *_ = listening.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _listening(address: str) -> socket.socket:
    """A socket bound to HOST:PORT. Raises OSError, and UnicodeError for what is no host's name."""
    host, _, port = address.rpartition(":")
    (family, kind, protocol, _, where), *_ = await trio.socket.getaddrinfo(
        host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # connections have it from here
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(_STALLED * 1000))
        bound.bind(where)
    except BaseException:
        bound.close()
        raise
    return bound


def _log() -> logging.Logger:
    """What goes wrong, and nothing else: hypercorn says of itself what we have said."""
    log = logging.getLogger("sarameya.http")
    log.setLevel(logging.WARNING)
    return log
