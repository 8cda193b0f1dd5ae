"""Python programs of README.md run unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import sarameya
from sarameya import Consumer, ConsumerGroup
from sarameya.embedded import EmbeddedCluster
from sarameya.testing import run_inline, virtual_wall_clock
from tests.docs.pages import PAGES, ROOT, blocks
from tests.group.kit import deadline, eventually, fill, orders
from tests.testing.user_project import Project

HANDLER, CONSUMER, LANDING, TEST = blocks(PAGES["README"], "python")
SERVERS = '["localhost:9092"]'


def shown(program: str, cluster: EmbeddedCluster) -> dict[str, Any]:
    """Return the names that the program defines, with this cluster at its address."""
    assert SERVERS in program
    names: dict[str, Any] = {}
    exec(program.replace(SERVERS, repr([*cluster.bootstrap_servers])), names)
    return names


async def test_handler_prints_and_commits_every_message(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    groups: list[ConsumerGroup] = []

    def group(*arguments: Any) -> ConsumerGroup:
        groups.append(
            ConsumerGroup(*arguments, transport=cluster.transport, run_sync=run_inline, wall_clock=virtual_wall_clock)
        )
        return groups[0]

    mains: list[Callable[[], Awaitable[None]]] = []
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 3, 0)
        fill(cluster, 4, 1)
        monkeypatch.setattr(sarameya, "ConsumerGroup", group)
        monkeypatch.setattr(trio, "run", mains.append)
        shown(HANDLER, cluster)
        nursery.start_soon(mains[0])
        await eventually(lambda: sum(one.offset for one in cluster.committed("orders").values()) == 7)
        await groups[0].close()
    assert len(capsys.readouterr().out.splitlines()) == 7


async def test_consumer_reads_and_commits(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    def consumer(*arguments: Any, **options: Any) -> Consumer:
        return Consumer(*arguments, **options, transport=cluster.transport, wall_clock=virtual_wall_clock)

    async with orders(1) as cluster, deadline() as nursery:
        fill(cluster, 3, 0)
        monkeypatch.setattr(sarameya, "Consumer", consumer)
        nursery.start_soon(shown(CONSUMER, cluster)["read"])
        await eventually(lambda: [one.offset for one in cluster.committed("audit").values()] == [3])
        nursery.cancel_scope.cancel()


def test_packages_are_enough_for_the_demo() -> None:
    [command] = [block for block in blocks(PAGES["README"], "indented") if block.startswith("sudo ")]
    told = command.split()[3:]
    bare = {**os.environ, "PATH": "", "JAVA_HOME": "/nowhere"}  # a machine that has nothing of it
    need = ["/bin/sh", str(ROOT / ".ci" / "need"), "--packages", "python", "java"]
    done = subprocess.run(need, env=bare, capture_output=True, text=True, check=True)
    assert [one for one in told if one != "make"] == done.stdout.split()


def test_documented_test_passes(tmp_path: Path) -> None:
    Project(tmp_path).passes(TEST, "-W", "error")


LAND = """
{program}

import trio
from sarameya import Config
from sarameya.embedded import EmbeddedCluster


async def main() -> None:
    async with EmbeddedCluster(topics={{"orders": 1}}) as cluster, trio.open_nursery() as nursery:
        nursery.start_soon(land, cluster.bootstrap_servers)
        while not cluster.committed("orders-landing"):  # where it begins; by default with what comes from now on
            await trio.sleep(0.1)
        cluster.produce("orders", 0, b"hello")
        while [one.offset for one in cluster.committed("orders-landing").values()] != [1]:
            await trio.sleep(0.1)
        nursery.cancel_scope.cancel()


trio.run(main)
"""


@pytest.mark.integration
def test_landing_writes_the_rows_of_the_transform(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    changes = {"async def land()": "async def land(servers)", SERVERS: "servers", "max_age=10.0": "max_age=0.5"}
    program = LANDING
    for before, after in changes.items():
        assert program.count(before) == 1
        program = program.replace(before, after)
    (tmp_path / "land.py").write_text(LAND.format(program=program))
    done = subprocess.run(
        [sys.executable, "land.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert pq.read_table(tmp_path / "landing" / "orders").to_pylist() == [{"text": "hello", "offset": 0}]
