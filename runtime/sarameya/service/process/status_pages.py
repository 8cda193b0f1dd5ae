"""The status page of a running service: `[service] http`."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sarameya.errors import ConfigError
from sarameya.extras import install_command
from sarameya.service.app.app_file import App
from sarameya.service.monitor.members import MemberSource
from sarameya.service.process.signals import Stop

logger = logging.getLogger("sarameya")


@asynccontextmanager
async def open_pages(app: App, members: MemberSource, stop: Stop) -> AsyncIterator[str | None]:
    """Serve the pages at `[service] http` for the length of the block.

    Yields:
        The URL of the pages; None without `[service] http`.

    Raises:
        ListenError: The address cannot be listened at now.
        ConfigError: The packages for the pages are not installed, or the address can never be listened at.
    """
    address = app.service.http
    if address is None:
        yield None
        return
    try:
        from sarameya.service.web.server import serve_pages
        from sarameya.service.web.status_board import StatusBoard
    except ImportError as error:
        remedy = f"needs more packages ({error}): {install_command('service')}"
        raise ConfigError("service.http", address, remedy) from None
    board = StatusBoard(app.group, members, stall_after=app.service.stall_after, why_stopping=lambda: stop.cause)
    async with serve_pages(board, address, app.service.http_hosts) as url:
        logger.info("status page, metrics and health at %s", url)
        yield url
