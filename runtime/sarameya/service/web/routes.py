"""The routes, in Starlette. All are GET requests, and none of them changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sarameya.service.web.host_check import AllowedHosts, HostCheck
from sarameya.service.web.metrics import MetricsCollector
from sarameya.service.web.page_feed import NO_EVENTS
from sarameya.service.web.status_board import PageSource

_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
_POLICY += "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
MAX_FOLLOWERS = 32
"""Clients of `/events` at the same time. Further clients may poll `/status.json`, as the page does."""
_TOO_MANY = f"{MAX_FOLLOWERS} clients follow /events already: retry later, or poll /status.json\n"
_LATER = {"Retry-After": "10", "Connection": "close"}
_SCRIPTS = ("page.js", "feed.js", "plots.js", "reasons.js", "tables.js", "format.js")
_STATIC = {"index.html": "text/html", **dict.fromkeys(_SCRIPTS, "text/javascript"), "page.css": "text/css"}


def make_routes(board: PageSource, names: AllowedHosts) -> Starlette:
    """Return the application that serves `board` to requests for the host names in `names`."""
    collector = MetricsCollector(board)
    static = {name: _static(name, kind) for name, kind in _STATIC.items()}  # read now, while file descriptors are free

    async def page(request: Request) -> Response:
        return static["index.html"]

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(collector), headers=_HEADERS | {"Content-Type": content_type})

    async def healthz(request: Request) -> Response:
        health = board.health()
        return _health_response("alive", health.not_alive)

    async def readyz(request: Request) -> Response:
        health = board.health()
        return _health_response("ready", health.not_ready, (*health.explained, *health.stacks))

    async def status(request: Request) -> Response:
        return JSONResponse(board.full_document(), headers=_HEADERS)

    followers = set[_Events]()

    async def events(request: Request) -> Response:
        if len(followers) >= MAX_FOLLOWERS:
            return PlainTextResponse(_TOO_MANY, status_code=503, headers=_HEADERS | _LATER)
        return _Events(board, followers)

    routes = [
        Route("/", page),
        Route("/metrics", metrics),
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/status.json", status),
        Route("/events", events),
        *(Route(f"/{name}", _serving(static[name])) for name in _STATIC if name != "index.html"),
    ]
    return Starlette(routes=routes, middleware=[Middleware(HostCheck, names=names)])


class _Events(StreamingResponse):
    """The response to one client of `/events`. It is in `followers` until the client disconnects."""

    def __init__(self, board: PageSource, followers: set[_Events]) -> None:
        super().__init__(_Feed(board), media_type="text/event-stream", headers=_HEADERS)
        self._followers = followers
        followers.add(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._followers.discard(self)


class _Feed:
    """The server-sent events: one document per update, without events and batches that the client has already.

    This is no async generator, since an unfinished generator would not be closed when the response is dropped.
    """

    def __init__(self, board: PageSource) -> None:
        self._board = board
        self._known = NO_EVENTS

    def __aiter__(self) -> _Feed:
        return self

    async def __anext__(self) -> str:
        has_all = self._known != NO_EVENTS or not self._board.has_document
        if has_all and not await self._board.wait_for_update():
            raise StopAsyncIteration
        text, self._known = self._board.render(self._known)
        return f"data: {text}\n\n"


def _health_response(state: str, reasons: Sequence[str], remarks: Sequence[str] = ()) -> Response:
    """Return the response of a health check: `state` or its opposite, a line for each reason, and the remarks."""
    lines = [f"not {state}" if reasons else state, *reasons, *remarks]
    return PlainTextResponse("\n".join(lines) + "\n", status_code=503 if reasons else 200, headers=_HEADERS)


def _serving(response: Response):  # type: ignore[no-untyped-def]
    async def serve(request: Request) -> Response:
        return response

    return serve


def _static(name: str, kind: str) -> Response:
    text = (files("sarameya.service.web") / "static" / name).read_text(encoding="utf-8")
    return Response(text, headers=_HEADERS, media_type=kind)
