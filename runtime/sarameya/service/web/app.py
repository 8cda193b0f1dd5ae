"""The routes, in Starlette. All are GET, and nothing can be changed by any of them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from sarameya.service.web.board import Shown
from sarameya.service.web.exposed import Exposed
from sarameya.service.web.looks import NOTHING
from sarameya.service.web.names import LetIn, Names

_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
_POLICY += "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_SCRIPTS = ("page.js", "feed.js", "plots.js", "reasons.js", "tables.js", "words.js")
_STATIC = {**dict.fromkeys(_SCRIPTS, "text/javascript"), "page.css": "text/css"}


def make_app(board: Shown, names: Names) -> Starlette:
    """The application over a board, for who asks by one of these names."""
    exposed = Exposed(board)

    async def page(request: Request) -> Response:
        return _static("index.html", "text/html")

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(exposed), headers=_HEADERS | {"Content-Type": content_type})

    async def healthz(request: Request) -> Response:
        found = board.health()
        return _told("alive", found.not_alive)

    async def readyz(request: Request) -> Response:
        found = board.health()
        return _told("ready", found.not_ready, (*found.explained, *found.stacks))

    async def status(request: Request) -> Response:
        return JSONResponse(board.full_document(), headers=_HEADERS)

    async def events(request: Request) -> Response:
        return StreamingResponse(_Feed(board), media_type="text/event-stream", headers=_HEADERS)

    routes = [
        Route("/", page),
        Route("/metrics", metrics),
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/status.json", status),
        Route("/events", events),
        *(Route(f"/{name}", _serving(name, kind)) for name, kind in _STATIC.items()),
    ]
    return Starlette(routes=routes, middleware=[Middleware(LetIn, names=names)])


class _Feed:
    """The server-sent events: a document a look, without the events and landings that it has had. A class, since an
    async generator that is dropped half-way is ended by nobody."""

    def __init__(self, board: Shown) -> None:
        self._board = board
        self._known = NOTHING

    def __aiter__(self) -> _Feed:
        return self

    async def __anext__(self) -> str:
        has_all = self._known != NOTHING or not self._board.has_looked
        if has_all and not await self._board.next_look():
            raise StopAsyncIteration
        text, self._known = self._board.told(self._known)
        return f"data: {text}\n\n"


def _told(what: str, bad: Sequence[str], more: Sequence[str] = ()) -> Response:
    """Return the answer: a line, one for each reason, and whatever else there is to know."""
    lines = [f"not {what}" if bad else what, *bad, *more]
    return PlainTextResponse("\n".join(lines) + "\n", status_code=503 if bad else 200, headers=_HEADERS)


def _serving(name: str, kind: str):  # type: ignore[no-untyped-def]
    async def serve(request: Request) -> Response:
        return _static(name, kind)

    return serve


def _static(name: str, kind: str) -> Response:
    text = (files("sarameya.service.web") / "static" / name).read_text(encoding="utf-8")
    return Response(text, headers=_HEADERS, media_type=kind)
