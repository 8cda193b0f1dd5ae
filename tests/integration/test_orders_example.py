"""`examples/orders`: three programs for the same job, each run to its end: failures, dead letters, and a redrive."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psycopg
import pytest
import trio

from sarameya.embedded import EmbeddedCluster
from tests.integration.postgres import postgres, postgres_program

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
TOGETHER = 50
"""Number of first requests that wait for each other: so many orders must be in flight at once."""
PROGRAMS = {
    "trio": ["-m", "examples.orders.on_trio"],
    "asyncio": ["-m", "examples.orders.on_asyncio"],
    "threads": ["-m", "sarameya.service", "run", "examples/orders/in_threads.toml"],
}


class Prices:
    """The HTTP service: an article costs 7, an unknown one gives 404, the first request of each tenth one 503."""

    def __init__(self) -> None:
        self.unknown = {"lamp"}
        self.requests: Counter[str] = Counter()
        self._together = threading.Barrier(TOGETHER)
        self._lock = threading.Lock()

    def answer(self, article: str) -> int:
        """Return the status of a request."""
        with self._lock:
            self.requests[article] += 1
            is_first = self.requests[article] == 1
        if is_first and article.startswith("together"):
            self._together.wait(PATIENCE)
        if is_first and article.endswith("0"):
            return 503
        return 404 if article in self.unknown else 200

    @contextmanager
    def served(self) -> Iterator[str]:
        """Yield the URL of the service."""
        prices = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status = prices.answer(self.path.rpartition("/")[2])
                self.send_response(status)
                self.send_header("Content-Length", "1")
                self.end_headers()
                self.wfile.write(b"7")

            def log_message(self, format: str, *args: object) -> None: ...

        with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
            server.daemon_threads = True
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()


@pytest.fixture
def database() -> Iterator[str]:
    """A database with the table of the orders."""
    if postgres_program("initdb") is None:
        pytest.skip("needs postgresql (`make test` prints how to install it)")
    with postgres() as place:
        url = f"postgresql://{place}"
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE orders (number int PRIMARY KEY, article text, cents int)")
        yield url


def rows(database: str) -> dict[int, int]:
    with psycopg.connect(database) as connection:
        return dict(connection.execute("SELECT number, cents FROM orders").fetchall())


def order(number: int, article: str) -> bytes:
    return json.dumps({"number": number, "article": article, "count": number % 3 + 1}).encode()


async def run(*command: str, **environment: str) -> str:
    done = await trio.run_process(
        [sys.executable, *command], cwd=ROOT, env={**os.environ, **environment}, capture_stdout=True
    )
    return bytes(done.stdout).decode()


@pytest.mark.parametrize("program", PROGRAMS)
async def test_orders_become_rows_or_redriven_dead_letters(program: str, database: str) -> None:
    prices, expected = Prices(), dict[int, int]()
    with prices.served() as url, trio.fail_after(2 * PATIENCE):
        async with EmbeddedCluster({"orders": 4}) as cluster:
            servers = ",".join(cluster.bootstrap_servers)
            environment = {"KAFKA": servers, "PRICES": url, "DATABASE": database}
            environment["SARAMEYA_BOOTSTRAP_SERVERS"] = servers
            for number in range(200):
                article = f"together-{number}" if number < TOGETHER else f"article-{number}"
                key = b"customer %d" % (number if number < TOGETHER else number % 20)
                cluster.produce("orders", number % 4, order(number, article), key=key)
                expected[number] = 7 * (number % 3 + 1)
            cluster.produce("orders", 0, order(1000, "lamp"), key=b"ann")
            cluster.produce("orders", 1, b'{"number": 1001, "article": "chair", "count": 0}', key=b"eve")
            process = await trio.lowlevel.open_process(
                [sys.executable, *PROGRAMS[program]], cwd=ROOT, env={**os.environ, **environment}
            )
            try:
                while rows(database) != expected or sum(one.offset for one in cluster.committed("shop").values()) < 202:
                    await trio.sleep(0.1)
                listed = await run("-m", "sarameya.service", "letters", "list", "orders.dead", "--bootstrap", servers)
                assert "HTTPStatusError" in listed
                assert "DecodeError" in listed
                assert prices.requests["lamp"] == 3, "three attempts"
                assert prices.requests["chair"] == 0
                prices.unknown.clear()
                redrive = (
                    "letters",
                    "redrive",
                    "orders.dead",
                    "--bootstrap",
                    servers,
                    "--error-class",
                    "HTTPStatusError",
                )
                await run("-m", "sarameya.service", *redrive, "--execute")
                expected[1000] = 7 * (1000 % 3 + 1)
                while rows(database) != expected:
                    await trio.sleep(0.1)
                process.send_signal(signal.SIGTERM)
                assert await process.wait() == 0
            finally:
                process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()
