"""Connections to the pages, with limits on their number and on slow clients. hypercorn speaks HTTP on each.

Pages must never use up the file descriptors that consuming needs. No more than `MOST` connections are open; further
clients wait in the kernel's queue. Idle connections end after five seconds (hypercorn's `keep_alive_timeout`).
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

MOST = 64
"""Connections that are open at a time."""
CALM = 10.0
"""Seconds without a failure to accept a connection until that is reported as over."""
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
        # hypercorn's types and Starlette's are those of the same protocol.
        self._app = wrap_app(cast(Any, app), config.wsgi_max_body_size, "asgi")
        self._config = config
        self._context = WorkerContext(None)
        self._stalled_after = stalled_after
        self._open: set[_ClientStream] = set()
        self._slots = trio.Semaphore(MOST)
        self._has_failed = False

    async def serve(self, listener: trio.SocketListener) -> None:
        """Accept and serve connections until cancelled; all are closed then."""
        accepting = _Accepting(listener)
        async with trio.open_nursery() as nursery:
            try:
                while True:
                    await self._slots.acquire()
                    stream = _ClientStream(await accepting.next(), self._stalled_after)
                    nursery.start_soon(self._serve_one, stream)
            finally:
                # hypercorn shields its sending: only a closed socket ends that.
                for stream in self._open:
                    stream.socket.close()

    async def _serve_one(self, stream: _ClientStream) -> None:
        """Serve one connection. hypercorn raises for some requests, which must not end the others."""
        self._open.add(stream)
        try:
            # hypercorn declares streams of TLS alone.
            await TCPServer(self._app, self._config, self._context, ConnectionState({}), cast(Any, stream))
        except* Exception as group:  # noqa: BLE001 - whatever hypercorn raises for a request
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


class _Accepting:
    """Accepts connections, and reports a failure once when it starts and once when it is over."""

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
                    self._failed(error)
            if calm.cancelled_caught:
                self._is_over()
            else:
                await trio.sleep(_PAUSE)

    def _failed(self, error: OSError) -> None:
        now = trio.current_time()
        self._over_at = now + CALM
        if self._failing_since is None:
            self._failing_since = now
            allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            limit = f" (ulimit -n is {allowed})" if error.errno == errno.EMFILE else ""
            why = os.strerror(error.errno) if error.errno else error_line(error)
            logger.error("no connection to the pages can be accepted: %s%s", why, limit)

    def _is_over(self) -> None:
        assert self._failing_since is not None
        lasted = self._over_at - CALM - self._failing_since
        self._failing_since, self._over_at = None, math.inf
        logger.info("connections to the pages are accepted again, after %.0f s", lasted)
