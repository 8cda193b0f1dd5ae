"""An HTTP proxy of a store or a catalog, which can spoil requests: `with proxy_of(endpoint) as proxy: proxy.url`."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from urllib.parse import urlsplit

_SLOW_SECONDS = 1.5


class Fault(Enum):
    """A way to spoil a request. The value says what happens."""

    REFUSED = "refused without a response"
    BUSY = "503, to slow down"
    EXPIRED = "expired credentials"
    SLOW = "a response after the client's timeout"
    RESET = "a response that ends in the middle"
    LOST = "executed without a response"


Spoil = Callable[[str, str], Fault | None]
"""Called with the method and the path of each request. Returns the fault; None to forward the request."""


class Proxy(ThreadingHTTPServer):
    """A proxy. Signatures stay valid, since it forwards the Host header as it was sent."""

    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Forward)
        parts = urlsplit(target)
        self.target = parts.netloc
        self.url = f"http://127.0.0.1:{self.server_port}{parts.path}"
        self.spoil: Spoil = lambda method, path: None
        self.lock = Lock()
        """Held while `spoil` is called."""

    def handle_error(self, *_: object) -> None:
        """Ignore that a client has closed its connection."""


class _Forward(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.lock:
            fault = self.server.spoil(self.command, self.path)
        if fault is Fault.BUSY:
            self._respond(503, _error("SlowDown"))
        elif fault is Fault.EXPIRED:
            self._respond(401, _error("ExpiredToken"))
        elif fault is Fault.REFUSED:
            self.close_connection = True
        else:
            status, headers, content = self._execute(body)
            if fault is Fault.SLOW:
                time.sleep(_SLOW_SECONDS)
            self.close_connection = fault is not None
            if fault is not Fault.LOST:
                self._respond(status, content, headers, is_cut=fault is Fault.RESET)

    def _execute(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.server.target, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def _respond(
        self, status: int, content: bytes, headers: dict[str, str] | None = None, *, is_cut: bool = False
    ) -> None:
        self.send_response_only(status)
        length = str(len(content))
        for name, value in (headers or {"Content-Type": "application/xml"}).items():
            if name.lower() == "content-length":
                length = value  # of a HEAD request, that of the object
            elif name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(int(length) + 1) if is_cut else length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if is_cut else content)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _forward

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _error(code: str) -> bytes:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>by the test</Message></Error>".encode()


@contextmanager
def proxy_of(target: str) -> Iterator[Proxy]:
    """Run a proxy of the server at a URL for the length of the block."""
    with Proxy(target) as proxy:
        thread = Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
