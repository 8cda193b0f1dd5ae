"""Connections to the pages, with limits on their number and on slow clients. hypercorn speaks HTTP on each.

Pages must never use up the file descriptors that the members need. At most `MAX_CONNECTIONS` are open; further clients
wait in the kernel's queue. Idle connections end after five seconds (hypercorn's `keep_alive_timeout`).
"""

from __future__ import annotations

import errno
import logging
import math
import os
import resource
from typing import Any, cast

import trio
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from hypercorn.utils import wrap_app
from starlette.types import ASGIApp

from sarameya.service.monitor.recent_events import error_line
from sarameya.service.output.error_report import leaves

logger = logging.getLogger("sarameya")

MAX_CONNECTIONS = 64
"""Connections that are open at the same time."""
CALM = 10.0
"""Seconds without a failure to accept a connection until the problem is reported as over."""
_PAUSE = 0.5
"""Seconds until the next attempt after a failure to accept."""
_CHUNK = 2**16


class Connections:
    """Serves an application on each connection that a listener accepts."""

    def __init__(self, app: ASGIApp, config: Config, *, stalled_after: float) -> None:
        """Take the application and its limits.

        Args:
            app: The application.
            config: hypercorn's settings.
            stalled_after: Seconds within which a client must take each 64 KiB of a response.
        """
        # hypercorn and Starlette have different types for the same protocol.
        self._app = wrap_app(cast(Any, app), config.wsgi_max_body_size, "asgi")
        self._config = config
        self._context = WorkerContext(None)
        self._stalled_after = stalled_after
        self._open: set[_ClientStream] = set()
        self._slots = trio.Semaphore(MAX_CONNECTIONS)
        self._has_failed = False

    async def serve(self, listener: trio.SocketListener) -> None:
        """Accept and serve connections until cancelled. Close all of them at the end."""
        acceptor = _Acceptor(listener)
        async with trio.open_nursery() as nursery:
            try:
                while True:
                    await self._slots.acquire()
                    stream = _ClientStream(await acceptor.next(), self._stalled_after)
                    nursery.start_soon(self._serve_client, stream)
            finally:
                # hypercorn sends in a shielded scope: only a closed socket ends that.
                for stream in self._open:
                    stream.socket.close()

    async def _serve_client(self, stream: _ClientStream) -> None:
        """Serve one connection. hypercorn raises for some requests, which must not end the others."""
        self._open.add(stream)
        try:
            # hypercorn's type annotation allows only TLS streams.
            await TCPServer(self._app, self._config, self._context, ConnectionState({}), cast(Any, stream))
        except* Exception as group:  # noqa: BLE001 - hypercorn may raise any error for a request
            if not self._has_failed:
                logger.error("a request to the pages has failed: %s", error_line(next(leaves(group))))
            self._has_failed = True
        finally:
            self._open.discard(stream)
            self._slots.release()
            await trio.aclose_forcefully(stream)


class _ClientStream(trio.abc.HalfCloseableStream):
    """A client's connection. It is closed if the client does not read its response."""

    def __init__(self, stream: trio.SocketStream, stalled_after: float) -> None:
        self.socket = stream.socket
        self._stream = stream
        self._stalled_after = stalled_after

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        with memoryview(data) as view:
            for start in range(0, len(view), _CHUNK):
                with trio.move_on_after(self._stalled_after) as patience:
                    await self._stream.send_all(view[start : start + _CHUNK])
                if patience.cancelled_caught:
                    self.socket.close()
                    raise trio.BrokenResourceError("the client does not read its response")


class _Acceptor:
    """Accepts connections. Logs once that accepting fails, and once that it works again."""

    def __init__(self, listener: trio.SocketListener) -> None:
        self._listener = listener
        self._failing_since: float | None = None
        self._over_at = math.inf

    async def next(self) -> trio.SocketStream:
        """Return the next connection."""
        while True:
            with trio.CancelScope(deadline=self._over_at) as calm:
                try:
                    return await self._listener.accept()
                except OSError as error:
                    self._log_failure(error)
            if calm.cancelled_caught:
                self._log_recovery()
            else:
                await trio.sleep(_PAUSE)

    def _log_failure(self, error: OSError) -> None:
        now = trio.current_time()
        self._over_at = now + CALM
        if self._failing_since is None:
            self._failing_since = now
            allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            limit = f" (ulimit -n is {allowed})" if error.errno == errno.EMFILE else ""
            why = os.strerror(error.errno) if error.errno else error_line(error)
            logger.error("no connection to the pages can be accepted: %s%s", why, limit)

    def _log_recovery(self) -> None:
        assert self._failing_since is not None
        lasted = self._over_at - CALM - self._failing_since
        self._failing_since, self._over_at = None, math.inf
        logger.info("connections to the pages are accepted again, after %.0f s", lasted)
