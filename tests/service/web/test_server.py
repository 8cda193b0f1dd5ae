"""Status pages over HTTP, at a loopback port."""

from __future__ import annotations

import errno
import gc
import json
import logging
import re
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import attrs
import pytest
import trio
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse
from trio.testing import MockClock

from sarameya.errors import ConfigError
from sarameya.service.app.app_file import App, HandlerSection, ServiceSection
from sarameya.service.monitor.members import WorkerStatus
from sarameya.service.process.signals import Stop
from sarameya.service.process.status_pages import open_pages
from sarameya.service.web.connections import _Acceptor
from sarameya.service.web.listen_error import ListenError
from sarameya.service.web.routes import MAX_FOLLOWERS, _Feed
from sarameya.service.web.server import serve_pages
from sarameya.service.web.status_board import StatusBoard
from sarameya.status import Activity
from tests.service.monitor.kit import ORDERS_1, partition, worker_status

READ = worker_status(partition(), partition(Activity.PAUSED, of=ORDERS_1, seconds=4.0))
MOST_SECONDS = 120.0
"""Timeout of a test: long on purpose, for a busy machine."""
HUNG = worker_status(partition(Activity.IN_HANDLER, seconds=99.0))


@attrs.define
class FakeMemberSource:
    now: list[WorkerStatus] = attrs.field(factory=lambda: [READ])

    def statuses(self) -> Sequence[WorkerStatus]:
        return self.now


@attrs.define
class Response:
    status: int
    headers: dict[str, str]
    body: str


@attrs.define
class Site:
    """A running server of pages."""

    members: FakeMemberSource
    port: int
    why_stopping: str = ""

    async def request(self, path: str, *, method: str = "GET", host: str = "localhost", **headers: str) -> Response:
        stream = await self.send(path, method=method, host=host, connection="close", **headers)
        async with stream:
            return parse_response(b"".join([chunk async for chunk in stream]))

    async def send(
        self, path: str, *, method: str = "GET", host: str = "localhost", **headers: str
    ) -> trio.SocketStream:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *(f"{key}: {value}" for key, value in headers.items())]
        await stream.send_all("\r\n".join([*lines, "", ""]).encode())
        return stream


def parse_response(data: bytes) -> Response:
    head, _, body = data.decode().partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = {key.lower(): value for key, value in (line.split(": ", 1) for line in lines)}
    return Response(int(first.split()[1]), headers, body)


@asynccontextmanager
async def site(bind: str = "127.0.0.1:0", names: Sequence[str] = ()) -> AsyncIterator[Site]:
    made = Site(FakeMemberSource(), 0)
    board = StatusBoard("g", made.members, stall_after=0.2, why_stopping=lambda: made.why_stopping)
    with trio.fail_after(MOST_SECONDS):
        async with serve_pages(board, bind, names) as url:
            made.port = int(url.rpartition(":")[2])
            yield made


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
        ("/status.json", "application/json"),
        ("/healthz", "text/plain; charset=utf-8"),
        ("/readyz", "text/plain; charset=utf-8"),
        ("/metrics", "text/plain; version=1.0.0; charset=utf-8"),
    ],
)
async def test_each_page_has_its_type_and_security_headers(path: str, kind: str) -> None:
    async with site() as here:
        found = await here.request(path)
        assert (found.status, found.headers["content-type"].split(";")[0]) == (200, kind.split(";")[0])
        policy = found.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["cache-control"] == "no-store"
        assert "server" not in found.headers


async def test_page_refers_only_to_served_resources() -> None:
    async with site() as here:
        page = (await here.request("/")).body
        named = set(re.findall(r'(?:href|src)="([^"#]+)"', page)) - {"data:,"}
        assert named == {"page.css", "page.js", "metrics", "status.json", "readyz", "healthz"}
        for name in named:
            assert (await here.request(f"/{name}")).status == 200
        scripts: dict[str, str] = {}
        wanted = ["page.js"]
        while wanted:
            if (name := wanted.pop()) not in scripts:
                found = await here.request(f"/{name}")
                assert (found.status, found.headers["content-type"]) == (200, "text/javascript; charset=utf-8"), name
                scripts[name] = found.body
                wanted += re.findall(r'from "\./([^"]+)"', found.body)
        assert len(scripts) > 1
        for text in (page, (await here.request("/page.css")).body, *scripts.values()):
            assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)[^ \"']+", text) == []
            assert re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text) == []


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:80", 200),
        ("127.0.0.1", 200),
        ("[::1]:8080", 200),
        ("evil.example", 400),
        ("localhost.evil", 400),
        ("10.0.0.7", 400),
        ("orders", 400),
    ],
)
async def test_loopback_server_accepts_only_local_names(host: str, status: int) -> None:
    async with site() as here:
        assert (await here.request("/status.json", host=host)).status == status


@pytest.mark.parametrize("bind", ["127.0.0.1:0", "0.0.0.0:0"])
async def test_probe_without_host_is_accepted_and_an_empty_host_is_not(bind: str) -> None:
    """HAProxy's httpchk sends HTTP/1.0 without a Host header; no browser can be made to do so."""
    async with site(bind) as here:
        for head, status in ((b"", 200), (b"Host:\r\n", 400)):
            stream = await trio.open_tcp_stream("127.0.0.1", here.port)
            async with stream:
                await stream.send_all(b"GET /healthz HTTP/1.0\r\n" + head + b"\r\n")
                assert parse_response(b"".join([chunk async for chunk in stream])).status == status


@pytest.mark.parametrize("path", ["/", "/status.json", "/events", "/metrics", "/readyz"])
async def test_other_host_names_must_be_allowed(path: str) -> None:
    async with site("0.0.0.0:0") as here:
        found = await here.request(path, host="evil.example")
        assert (found.status, "[service] http_hosts" in found.body) == (400, True)
    async with site("0.0.0.0:0", ["orders.internal"]) as here:
        stream = await here.send(path, host="orders.internal:80", connection="close")
        async with stream:
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")


async def test_other_paths_and_methods_are_refused() -> None:
    async with site() as here:
        for path in ("/index.html", "/static/page.js", "/../app.py", "/metrics/x"):
            assert (await here.request(path)).status == 404, path
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            for path in ("/", "/metrics", "/readyz", "/status.json", "/events"):
                assert (await here.request(path, method=method)).status == 405, (method, path)


async def test_metrics_have_the_requested_format() -> None:
    async with site() as here:
        strict = await here.request("/metrics", accept="application/openmetrics-text; version=1.0.0")
        assert strict.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        plain = await here.request("/metrics", accept="text/plain; version=0.0.4")
        assert plain.headers["content-type"].startswith("text/plain")
        lags = [
            {sample.labels["partition"]: sample.value for family in families for sample in family.samples
             if sample.name == "sarameya_partition_lag_records"}
            for families in (parse_openmetrics(strict.body), parse(plain.body))
        ]  # fmt: skip
        assert lags == [{"0": 0, "1": 0}, {"0": 0, "1": 0}]


async def test_silent_worker_has_only_the_age_of_its_report_as_metric() -> None:
    """Its last metrics may be outdated, and its partitions may belong to another worker."""
    async with site() as here:
        silent, taken_over = worker_status(partition(), age=11.0), worker_status(partition(), worker=2, age=1.5)
        starting, ended = WorkerStatus(worker=3, age=4.0), WorkerStatus(worker=4, failure="was killed by SIGKILL")
        here.members.now = [silent, taken_over, starting, ended]
        families = [*parse((await here.request("/metrics")).body)]
        of_worker: dict[str, set[str]] = {}
        for sample in (sample for family in families for sample in family.samples):
            of_worker.setdefault(sample.labels.get("worker", ""), set()).add(sample.name)
        assert of_worker["1"] == of_worker["3"] == {"sarameya_worker_heard_seconds"}
        assert {"sarameya_member_state", "sarameya_partition_lag_records"} <= of_worker["2"]
        assert "4" not in of_worker
        [ages] = [family for family in families if family.name == "sarameya_worker_heard_seconds"]
        assert [(sample.labels, sample.value) for sample in ages.samples] == [
            ({"group": "g", "worker": worker}, age) for worker, age in (("1", 11.0), ("2", 1.5), ("3", 4.0))
        ]


async def test_readyz_and_healthz_have_reasons_and_status_codes() -> None:
    async with site() as here:
        found = await here.request("/readyz")
        assert (found.status, found.body) == (200, "ready\norders-1: paused for 4 s\n")
        here.members.now = [HUNG]
        while (found := await here.request("/readyz")).status == 200:
            await trio.sleep(0.05)
        assert found.status == 503
        assert re.fullmatch(r"not ready\norders-0: no progress for \d+ s: in handler for 99 s\n", found.body)
        assert (await here.request("/healthz")).body == "alive\n"
        here.members.now = [attrs.evolve(READ, age=11.0)]
        found = await here.request("/healthz")
        assert (found.status, found.body) == (503, "not alive\nworker 1 has not reported for 11 s\n")
        here.why_stopping = "SIGTERM"
        assert (await here.request("/readyz")).body.startswith("not ready\nstopping: SIGTERM\n")


async def test_status_has_health_partitions_and_members() -> None:
    async with site() as here:
        document = json.loads((await here.request("/status.json")).body)
        assert (document["group"], document["ready"], document["reasons"]) == ("g", True, [])
        assert document["explained"] == ["orders-1: paused for 4 s"]
        shown = [(row["topic"], row["partition"], row["activity"], row["lag"]) for row in document["partitions"]]
        assert shown == [("orders", 0, "fetching", 0), ("orders", 1, "paused", 0)]
        assert document["members"][0]["state"] == "stable"
        assert document["points"].keys() == {"at", "lag", "records", "landed", "committed_lag"}


async def test_events_arrive_each_second_and_end_with_the_server() -> None:
    async with site() as here:
        stream = await here.send("/events")
        received = b""
        while received.count(b"data: ") < 3:
            received += await stream.receive_some()
        assert b"content-type: text/event-stream" in received.lower()
        documents = [json.loads(text) for text in re.findall(rb"data: (.*)\n\n", received)]
        assert {one["group"] for one in documents} == {"g"}
        assert documents[1]["at"] - documents[0]["at"] > 0.5
        started = trio.current_time()
    assert trio.current_time() - started < 2
    async with stream:
        rest = b"".join([chunk async for chunk in stream])
    assert rest.count(b"data: ") <= 1


def feeds() -> int:
    """Return the number of clients of `/events`."""
    gc.collect()
    return sum(isinstance(one, _Feed) for one in gc.get_objects())


async def test_closed_client_leaves_no_feed() -> None:
    before = feeds()
    async with site() as here:
        streams = [await here.send("/events") for _ in range(5)]
        for stream in streams:
            assert await stream.receive_some()
        assert feeds() == before + 5
        for stream in streams:
            await stream.aclose()
        while feeds() > before:
            await trio.sleep(0.1)
        assert (await here.request("/healthz")).status == 200


async def test_address_in_use_is_reported_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ListenError) as raised:
            async with site(address):
                pytest.fail("it was served")
        assert str(raised.value) == f"service.http = '{address}': cannot be listened at: Address already in use"


async def test_invalid_host_is_reported_in_one_line() -> None:
    host = f"{'x' * 64}:0"
    with pytest.raises(ConfigError, match=rf"^service\.http = '{host}': cannot be listened at: .+$"):
        async with site(host):
            pytest.fail("it was served")


async def test_missing_extra_is_reported_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App(
        bootstrap_servers=("localhost:1",),
        group="g",
        handler=HandlerSection("print"),
        topics=("orders",),
        service=ServiceSection(http="127.0.0.1:0"),
    )
    monkeypatch.delitem(sys.modules, "sarameya.service.web.server")
    monkeypatch.setitem(sys.modules, "hypercorn.config", None)
    with pytest.raises(ConfigError, match=r"service\.http.* pip install .*hypercorn"):
        async with open_pages(app, FakeMemberSource(), Stop()):
            pytest.fail("it was served")
    async with open_pages(attrs.evolve(app, service=ServiceSection()), FakeMemberSource(), Stop()) as url:
        assert url is None


@pytest.mark.parametrize("settings", ["a", "AAAA"])
async def test_failing_request_ends_only_open_connections(settings: str) -> None:
    """Hypercorn decodes the invalid settings of an upgrade to HTTP/2 outside of any error handling."""
    async with site() as served:
        upgrade = {"upgrade": "h2c", "HTTP2-Settings": settings}
        stream = await served.send("/", connection="Upgrade, HTTP2-Settings", **upgrade)
        await stream.aclose()
        with trio.fail_after(MOST_SECONDS):
            while True:
                try:
                    response = await served.request("/healthz")
                    break
                except (OSError, IndexError):  # no server accepts the connection, or one that is closing
                    await trio.sleep(0.1)
        assert response.status == 200


async def test_client_that_reads_nothing_does_not_delay_the_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sarameya.service.web.server._STALLED", 1.0)
    with trio.fail_after(15):
        async with site() as served:
            monkeypatch.setattr("sarameya.service.web.routes._Feed.__anext__", _large_event)
            stream = await served.send("/events")
            await trio.sleep(1)
        await stream.aclose()


async def test_client_that_reads_too_slowly_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client reads a little now and then, so the kernel has no reason to close the connection."""
    monkeypatch.setattr("sarameya.service.web.server._STALLED", 1.0)
    monkeypatch.setattr("sarameya.service.web.routes._Feed.__anext__", _large_event)
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT", raising=False)
    before = feeds()
    async with site() as served:
        stream = await served.send("/events")
        assert await stream.receive_some(1)
        assert feeds() == before + 1
        while feeds() > before:
            await stream.receive_some(4096)
            await trio.sleep(0.2)
        assert (await served.request("/healthz")).status == 200
        await stream.aclose()


async def test_client_over_the_limit_is_refused_until_one_leaves() -> None:
    async with site() as here:
        streams = [await here.send("/events") for _ in range(MAX_FOLLOWERS)]
        for stream in streams:
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")
        refused = await here.request("/events")
        assert (refused.status, refused.headers["retry-after"]) == (503, "10")
        assert "32 clients follow /events already" in refused.body
        assert (await here.request("/readyz")).status == 200
        await streams.pop().aclose()
        while (stream := await here.send("/events")) and not (await stream.receive_some()).startswith(b"HTTP/1.1 200 "):
            await stream.aclose()
            await trio.sleep(0.1)
        for one in (stream, *streams):
            await one.aclose()


class Exhausted:
    """A listener that fails for a while."""

    def __init__(self, error: OSError, until: float) -> None:
        self.error, self.until, self.tries = error, until, 0

    async def accept(self) -> Any:
        self.tries += 1
        if trio.current_time() < self.until:
            raise self.error
        await trio.sleep(60)
        return "a connection"


@pytest.mark.parametrize(
    ("number", "why"),
    [(errno.EMFILE, r"Too many open files \(ulimit -n is \d+\)"), (errno.ENOMEM, "Cannot allocate memory")],
)
async def test_fault_60_failing_accept_is_logged_once_and_when_over(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, number: int, why: str
) -> None:
    caplog.set_level(logging.INFO, "sarameya")
    listener = Exhausted(OSError(number, "no"), trio.current_time() + 100)
    assert await _Acceptor(cast(Any, listener)).next() == "a connection"
    first, second = [record.getMessage() for record in caplog.records]
    assert re.fullmatch(f"no connection to the pages can be accepted: {why}", first)
    assert second == "connections to the pages are accepted again, after 100 s"
    assert listener.tries < 250, "accept is retried without a pause"


async def _large_event(feed: _Feed) -> str:
    await trio.sleep(0.01)
    return "data: " + "x" * 1_000_000 + "\n\n"


async def test_failing_document_is_reported_once(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def statuses(self) -> list[WorkerStatus]:
            raise KeyError("x")

    board = StatusBoard("g", Broken(), stall_after=1.0, why_stopping=lambda: "")
    with trio.move_on_after(10):
        await board.run()
    (record,) = caplog.records
    assert record.getMessage() == "the content of the status page cannot be made"
