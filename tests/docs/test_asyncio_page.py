"""Programs of docs/asyncio.md run unchanged, and its tables match the code."""

from __future__ import annotations

import asyncio
import inspect
import re
import signal
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import sarameya
import sarameya.asyncio
from sarameya import ClaimError, Config
from tests.asyncio.kit import Cluster, cluster_of, eventually, run
from tests.docs.pages import blocks, page

PAGE = page("asyncio")


class Service:
    """The service of the page's examples. It refuses `bad`, and fails once."""

    def __init__(self) -> None:
        self.booked: list[bytes | None] = []
        self.fails = True

    async def book(self, value: bytes | None) -> None:
        await asyncio.sleep(0)
        if value == b"bad":
            raise ValueError("refused")
        if self.fails:
            self.fails = False
            raise OSError("busy")
        self.booked.append(value)


@pytest.fixture
def shown() -> dict[str, Any]:
    names: dict[str, Any] = {"Service": Service, "SERVICE": Service(), "BOOTSTRAP_SERVERS": "localhost:1"}
    exec("\n".join(blocks(PAGE, "python")), names)
    return names


async def consume_until(consuming: asyncio.Task[None], condition: Callable[[], bool]) -> None:
    await eventually(condition)
    consuming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await consuming


def test_orders_are_booked(shown: dict[str, Any]) -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            for number in range(60):
                await cluster.produce("orders", 0, b"%d" % number, key=b"%d" % (number % 20))
            await cluster.produce("orders", 0, b"bad")
            service, servers = Service(), ",".join(cluster.bootstrap_servers)
            consuming = asyncio.create_task(shown["main"](servers, service))
            await eventually(lambda: _has_committed(cluster, 61))
            await consume_until(consuming, lambda: len(service.booked) == 60)
            assert await cluster.do(lambda embedded: embedded.log("orders.dead", 0).end_offset) == 1

    run(main)


async def _has_committed(cluster: Cluster, offset: int) -> bool:
    return await cluster.committed("billing") == offset


def test_application_consumes_what_it_produces(shown: dict[str, Any]) -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            shown["BOOTSTRAP_SERVERS"] = cluster.bootstrap_servers
            app = shown["app"]
            async with shown["lifespan"](app), httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
                await eventually(lambda: _reads(cluster))
                response = await client.post("http://app/orders", params={"value": "1"})
                assert response.json() == 0
                await eventually(lambda: shown["SERVICE"].booked == [b"1"])
            assert await cluster.committed("billing") == 1

    run(main)


async def _reads(cluster: Cluster) -> bool:
    """Return whether the group has committed its start offset: the end of the log."""
    return await cluster.committed("billing") is not None


def test_application_ends_if_its_handler_fails(shown: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[signal.Signals] = []
    monkeypatch.setattr(signal, "raise_signal", raised.append)

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            shown["BOOTSTRAP_SERVERS"] = cluster.bootstrap_servers
            shown["Orders"].dead_letters = None

            async def serve() -> None:
                async with shown["lifespan"](shown["app"]):
                    await eventually(lambda: _reads(cluster))
                    await cluster.produce("orders", 0, b"bad")
                    await eventually(lambda: raised == [signal.SIGTERM])

            with pytest.raises(ExceptionGroup) as failure:
                await serve()
            assert failure.group_contains(ClaimError)

    run(main)


def test_rows_are_written_and_committed(shown: dict[str, Any]) -> None:
    written: list[bytes | None] = []

    async def write(values: list[bytes | None]) -> None:
        written.extend(values)

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a", b"b")
            shown["write"] = write
            config = Config(offset_initial="oldest")
            async with sarameya.asyncio.ConsumerGroup(cluster.bootstrap_servers, "billing", config) as group:
                consuming = asyncio.create_task(group.consume(["orders"], shown["Rows"]()))
                await consume_until(consuming, lambda: written == [b"a", b"b"])
            assert await cluster.committed("billing") == 2

    run(main)


def test_consumer_reads_the_first_value(shown: dict[str, Any]) -> None:
    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            await cluster.produce("orders", 0, b"a", b"b")
            assert await shown["first_value"](",".join(cluster.bootstrap_servers)) == b"a"

    run(main)


def test_table_lists_methods_that_are_coroutines_only_here() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| `subscribe`"))
    listed = {name.rpartition(".")[2] for name in re.findall(r"`([\w.]+)`", row.split("|")[1])}
    found = set()
    for name in ("ConsumerGroup", "Consumer", "Session", "Claim", "Producer"):
        ours, trios = getattr(sarameya.asyncio, name), getattr(sarameya, name)
        for method, _ in inspect.getmembers(ours, inspect.iscoroutinefunction):
            if method[0] != "_" and not inspect.iscoroutinefunction(getattr(trios, method)):
                found.add(method)
    assert listed == found


def test_table_lists_features_that_exist_only_on_trio() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| `StreamHandler`"))
    for name in re.findall(r"`([\w.]+)`", row.split("|")[1]):
        owner, _, method = name.partition(".")
        assert hasattr(sarameya, owner)
        if method:
            assert hasattr(getattr(sarameya, owner), method)
            assert not hasattr(getattr(sarameya.asyncio, owner), method)
        else:
            assert not hasattr(sarameya.asyncio, owner)
    for name in ("rebalance_timeout", "rebalance_margin", "session_timeout", "close_timeout", "sasl_token"):
        assert hasattr(Config(), name)
        assert name in PAGE
