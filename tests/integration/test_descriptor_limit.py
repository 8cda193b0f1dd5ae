"""More HTTP clients than a service has file descriptors: it continues to consume, and logs one line about them."""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from sarameya import TopicPartition
from sarameya.embedded import EmbeddedCluster
from tests.integration.browser.service import Service, running

pytestmark = pytest.mark.integration

ORDERS_0 = TopicPartition("orders", 0)


@asynccontextmanager
async def few_descriptors(
    directory: Path, cluster: EmbeddedCluster, handler: str = "commanded:Commanded"
) -> AsyncIterator[Service]:
    """Run a service whose process may have 256 file descriptors, and stop it in order."""
    async with running(directory, cluster, handler=handler) as service:
        resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (256, 256))
        yield service
        service.process.send_signal(signal.SIGTERM)
        with trio.fail_after(60):
            assert await service.process.wait() == 0


async def send_get(url: str, path: str) -> trio.SocketStream:
    host, _, port = url.removeprefix("http://").rpartition(":")
    stream = await trio.open_tcp_stream(host, int(port))
    await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return stream


async def until_committed(cluster: EmbeddedCluster, offset: int) -> None:
    with trio.fail_after(60):
        while (found := cluster.committed("orders-landing").get(ORDERS_0)) is None or found.offset < offset:
            await trio.sleep(0.1)


def warnings_logged(service: Service) -> list[str]:
    text = service.log.read_text()
    assert "Traceback" not in text
    assert "traceback" not in text
    return [line["message"] for line in map(json.loads, text.splitlines()) if line["level"] in ("WARNING", "ERROR")]


async def test_fault_60_number_of_event_clients_is_limited(tmp_path: Path) -> None:
    async with (
        EmbeddedCluster(topics={"orders": 1}) as cluster,
        few_descriptors(tmp_path, cluster) as service,
        AsyncExitStack() as clients,
    ):
        cluster.produce("orders", 0, b"x")
        await until_committed(cluster, 1)
        answers: list[bytes] = []

        async def follow(stream: trio.SocketStream) -> None:
            head = b""
            while b"\r\n\r\n" not in head:
                if not (chunk := await stream.receive_some()):
                    break
                head += chunk
            answers.append(head)

        async with trio.open_nursery() as nursery:
            for _ in range(300):
                stream = await clients.enter_async_context(await send_get(service.url, "/events"))
                nursery.start_soon(follow, stream)
            for number in range(20):
                cluster.produce("orders", 0, b"x")
                await until_committed(cluster, 2 + number)
            cluster.disconnect()  # new connections to brokers need descriptors
            cluster.produce("orders", 0, b"x")
            await until_committed(cluster, 22)
            status, _ = await service.answer("/readyz")
            assert status == 200
        served = [head for head in answers if head.startswith(b"HTTP/1.1 200 ")]
        refused = [head for head in answers if head.startswith(b"HTTP/1.1 503 ")]
        assert (len(served), len(refused)) == (32, 268)
        assert all(b"retry-after: " in head.lower() for head in refused)
        assert [line for line in warnings_logged(service) if "connection" not in line] == []
        assert len(os.listdir(f"/proc/{service.process.pid}/fd")) < 128


EXHAUST = '''
import os, resource, trio
from sarameya import ConsumerGroupHandler


class Exhausts(ConsumerGroupHandler):
    """Opens all descriptors that the process may have at `take`, and closes them at `give`."""

    taken = []

    async def consume_claim(self, session, claim):
        async for message in claim:
            if message.value == b"take":
                try:
                    while True:
                        self.taken.append(os.open(os.devnull, os.O_RDONLY))
                except OSError:
                    pass
            elif message.value == b"give":
                while self.taken:
                    os.close(self.taken.pop())
            session.mark_message(message)
'''


async def test_fault_60_lack_of_descriptors_is_logged_once(tmp_path: Path) -> None:
    (tmp_path / "exhausts.py").write_text(EXHAUST)
    async with (
        EmbeddedCluster(topics={"orders": 1}) as cluster,
        few_descriptors(tmp_path, cluster, "exhausts:Exhausts") as service,
        AsyncExitStack() as clients,
    ):
        cluster.produce("orders", 0, b"take")
        await until_committed(cluster, 1)
        for _ in range(5):
            await clients.enter_async_context(await send_get(service.url, "/readyz"))
        began = cpu_seconds(service)
        for number in range(30):
            cluster.produce("orders", 0, b"x")
            await until_committed(cluster, 2 + number)
            await trio.sleep(0.1)
        assert cpu_seconds(service) - began < 2.5, "the service spins"
        (line,) = warnings_logged(service)
        assert "Too many open files" in line
        cluster.produce("orders", 0, b"give")
        await until_committed(cluster, 32)
        status, _ = await service.answer("/healthz")
        assert status == 200
        with trio.fail_after(60):
            while "accepted again" not in service.log.read_text():
                await trio.sleep(0.2)
        assert warnings_logged(service) == [line]


def cpu_seconds(service: Service) -> float:
    fields = Path(f"/proc/{service.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
