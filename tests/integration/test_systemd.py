"""`sarameya run` under a service manager: a datagram socket stands in for systemd."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from sarameya.embedded import EmbeddedCluster
from tests.integration.test_run_command import Running, app_file, sarameya

pytestmark = pytest.mark.integration

HANDLER = """
import os, subprocess, sys
from sarameya import ConsumerGroupHandler
LOOK = "import os; print('child', sorted({'NOTIFY_SOCKET', 'WATCHDOG_USEC'} & set(os.environ)), flush=True)"

class Looking(ConsumerGroupHandler):
    async def setup(self, session):
        subprocess.run([sys.executable, "-c", LOOK], check=True)

    async def consume_claim(self, session, claim):
        async for message in claim:
            session.mark_message(message)
"""


class Manager:
    """A service manager: receives notifications, one dict for each datagram."""

    def __init__(self, listening: trio.socket.SocketType) -> None:
        self._listening = listening
        self.received: list[dict[str, str]] = []

    async def until(self, name: str) -> dict[str, str]:
        """Receive until a notification has this variable. Return it."""
        while True:
            text = (await self._listening.recv(65536)).decode()
            notification = dict(line.split("=", 1) for line in text.split("\n"))
            self.received.append(notification)
            if name in notification:
                return notification


@pytest.fixture
async def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Manager]:
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        await listening.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "1000000")
        yield Manager(listening)


def looking_app(directory: Path, cluster: EmbeddedCluster) -> str:
    (directory / "looking.py").write_text(HANDLER)
    return app_file(directory, cluster.bootstrap_servers, handler="looking:Looking", extra="heartbeat_interval = 0.2")


def printed_by_children(running: Running) -> set[str]:
    return {line for line in running.stdout if line.startswith("child")}


async def test_systemd_is_notified_of_start_watchdog_and_stop(tmp_path: Path, manager: Manager) -> None:
    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        async with sarameya(tmp_path, "run", looking_app(tmp_path, cluster)) as running:
            ready = await manager.until("READY")
            assert ready["STATUS"] == "group g, generation 1: 1 of 1 members, 2 partitions"
            assert {"EXTEND_TIMEOUT_USEC", "WATCHDOG"} <= manager.received[0].keys()
            await manager.until("WATCHDOG")
            running.process.terminate()
            stopping = await manager.until("STOPPING")
            assert stopping["STATUS"] == "stopping: SIGTERM"
            await manager.until("EXTEND_TIMEOUT_USEC")
            assert await running.process.wait() == 0
    assert printed_by_children(running) == {"child []"}


async def test_only_the_supervisor_reports_readiness(tmp_path: Path, manager: Manager) -> None:
    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        async with sarameya(tmp_path, "run", looking_app(tmp_path, cluster), "--workers", "2") as running:
            await manager.until("READY")
            assert len(cluster.describe_group("g").members) == 2
            await manager.until("WATCHDOG")
            running.process.terminate()
            await manager.until("STOPPING")
            assert await running.process.wait() == 0
    assert sum("READY" in notification for notification in manager.received) == 1
    assert all(
        " of 2 members" in notification["STATUS"]
        for notification in manager.received
        if notification.get("STATUS", "").startswith("group")
    )
    assert printed_by_children(running) == {"child []"}
