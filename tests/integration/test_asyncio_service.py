"""A service on asyncio with uvicorn, FastAPI, httpx and SQLAlchemy: consumption, a blocked loop, the end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio

from sarameya import TopicPartition
from sarameya.embedded import CoordinatorConfig, EmbeddedCluster, GroupState
from tests.integration.postgres import postgres, postgres_program
from tests.integration.real_kafka.node import free_ports

pytestmark = [pytest.mark.integration, pytest.mark.alone]

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
SESSION_TIMEOUT = 3.0
ORDERS = 300


@pytest.fixture
def database() -> Iterator[str]:
    """A database without tables."""
    if postgres_program("initdb") is None:
        pytest.skip("needs postgresql (`make test` prints how to install it)")
    with postgres() as url:
        yield url


@asynccontextmanager
async def service(cluster: EmbeddedCluster, database: str, loop: str) -> AsyncIterator[tuple[str, trio.Process]]:
    """Run the service in asyncio's debug mode. It must log nothing on stderr but slow calls."""
    (port,) = free_ports(1)
    environment = {
        **os.environ,
        "PYTHONASYNCIODEBUG": "1",
        "SERVERS": ",".join(cluster.bootstrap_servers),
        "DATABASE": database,
        "PORT": str(port),
        "LOOP": loop,
        "SESSION_TIMEOUT": str(SESSION_TIMEOUT),
    }
    command = [sys.executable, "-m", "tests.integration.asyncio_service"]
    process = await trio.lowlevel.open_process(command, cwd=ROOT, env=environment, stderr=-1)
    chunks: list[bytes] = []

    async def read() -> None:
        assert process.stderr is not None
        chunks.extend([chunk async for chunk in process.stderr])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        try:
            yield f"http://127.0.0.1:{port}", process
        finally:
            if process.returncode is None:
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
    lines = b"".join(chunks).decode().splitlines()
    # asyncio's debug mode reports each call that takes a tenth of a second; the test blocks on purpose.
    assert [line for line in lines if not line.startswith("Executing <")] == []


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(PATIENCE):
        while not condition():
            await trio.sleep(0.05)


async def get(client: httpx.AsyncClient, path: str) -> dict[str, object]:
    response = await client.get(path)
    found: dict[str, object] = response.raise_for_status().json()
    return found


async def post(client: httpx.AsyncClient, path: str, parameters: dict[str, str]) -> None:
    (await client.post(path, params=parameters)).raise_for_status()


@pytest.mark.parametrize("loop", ["asyncio", pytest.param("uvloop", marks=pytest.mark.exhaustive)])
async def test_service_consumes_survives_blocking_and_ends_in_order(loop: str, database: str) -> None:
    limits = CoordinatorConfig(min_session_timeout=1.0)
    async with EmbeddedCluster({"orders": 3}, groups=limits) as cluster:
        async with service(cluster, database, loop) as (url, process), httpx.AsyncClient(base_url=url) as client:
            client.timeout = httpx.Timeout(PATIENCE)
            await until(lambda: cluster.describe_group("shop").state is GroupState.STABLE)
            async with trio.open_nursery() as nursery:
                for number in range(ORDERS):
                    parameters = {"customer": f"customer {number % 30}"}
                    nursery.start_soon(
                        lambda path, given: client.post(path, params=given), f"/orders/{number}", parameters
                    )
            with trio.fail_after(PATIENCE):
                while (await get(client, "/orders"))["count"] != ORDERS - 1:  # 13 is a dead letter
                    await trio.sleep(0.05)
            before = await get(client, "/status")
            assert (before["state"], before["partitions"]) == ("STABLE", 3)

            await post(client, "/block", {"seconds": str(3 * SESSION_TIMEOUT)})
            assert await get(client, "/status") == before, "the loop was blocked for three session timeouts"

            process.send_signal(signal.SIGTERM)
            with trio.fail_after(PATIENCE):
                await process.wait()
            assert cluster.describe_group("shop").members == ()
            committed = cluster.committed("shop")
            assert sum(committed[TopicPartition("orders", number)].offset for number in range(3)) == ORDERS
            assert cluster.log("orders.dead", 0).end_offset == 1
