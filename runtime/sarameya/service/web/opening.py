"""Opens a service's pages, where it is to have some."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sarameya.errors import ConfigError
from sarameya.extras import install_command
from sarameya.service.app_file import App
from sarameya.service.signals import Stop
from sarameya.service.web.members import Members

logger = logging.getLogger("sarameya")


@asynccontextmanager
async def open_pages(app: App, members: Members, stop: Stop) -> AsyncIterator[str | None]:
    """The pages at `[service] http` for the length of the block; yields the URL, or None where none are wanted.

    Raises ConfigError where what serves them is not installed, and as `serving` does.
    """
    address = app.service.http
    if address is None:
        yield None
        return
    try:
        from sarameya.service.web.board import Board
        from sarameya.service.web.server import serving
    except ImportError as error:
        remedy = f"needs more packages ({error}): {install_command('service')}"
        raise ConfigError("service.http", address, remedy) from None
    board = Board(app.group, members, stall_after=app.service.stall_after, why_stopping=lambda: stop.cause)
    async with serving(board, address, app.service.http_hosts) as url:
        logger.info("status page, metrics and health at %s", url)
        yield url
