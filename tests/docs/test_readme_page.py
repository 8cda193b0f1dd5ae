"""Python programs of README.md run unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

import sarameya
from sarameya import ConsumerGroup
from sarameya.embedded import EmbeddedCluster
from sarameya.testing import run_inline, virtual_wall_clock
from tests.docs.pages import PAGES, ROOT, blocks
from tests.group.kit import deadline, eventually, fill, orders
from tests.producer.kit import values
from tests.testing.user_project import Project

MESSAGES, HANDLER, LANDING, TEST = blocks(PAGES["README"], "python")
SERVERS = '["localhost:9092"]'


@attrs.define
class Shown:
    """A program of the page whose address is that of an embedded cluster, and its groups."""

    main: Callable[[], Awaitable[None]]
    groups: list[ConsumerGroup]
    names: dict[str, Any]


def shown(program: str, cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Return the program without starting it."""
    groups: list[ConsumerGroup] = []
    mains: list[Callable[[], Awaitable[None]]] = []

    def group(*arguments: Any) -> ConsumerGroup:
        groups.append(
            ConsumerGroup(*arguments, transport=cluster.transport, run_sync=run_inline, wall_clock=virtual_wall_clock)
        )
        return groups[0]

    assert SERVERS in program
    names: dict[str, Any] = {}
    monkeypatch.setattr(sarameya, "ConsumerGroup", group)
    monkeypatch.setattr(trio, "run", mains.append)
    exec(program.replace(SERVERS, repr([*cluster.bootstrap_servers])), names)
    return Shown(mains[0], groups, names)


async def test_orders_are_handled_by_key_or_become_dead_letters(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, int]] = []
    failures = {13: 99, 93: 2}

    def write(customer: str, cents: int) -> None:
        calls.append((customer, cents))
        failures[cents] = failures.get(cents, 0) - 1
        if failures[cents] >= 0:
            raise OSError("no answer")

    async with orders(1) as cluster, deadline() as nursery:
        for cents in (1, 2, 3):
            for number in range(50):
                customer = f"customer {number}"
                value = b'{"customer": "%s", "cents": %d}' % (customer.encode(), cents)
                cluster.produce("orders", 0, value, key=customer.encode())
        for order in (b"no order", b'{"customer": "ann", "cents": 13}', b'{"customer": "ann", "cents": 93}'):
            cluster.produce("orders", 0, order, key=b"ann")
        program = shown(MESSAGES, cluster, monkeypatch)
        program.names["print"] = write
        started = trio.current_time()
        nursery.start_soon(program.main)
        await eventually(lambda: [one.offset for one in cluster.committed("billing").values()] == [153])
        assert trio.current_time() - started < 5, "handled one after the other, they take 15 seconds"
        await program.groups[0].close()
        assert values(cluster, 0, "orders.dead") == [b"no order", b'{"customer": "ann", "cents": 13}']
    assert [cents for customer, cents in calls if customer == "customer 7"] == [1, 2, 3]
    assert [cents for customer, cents in calls if customer == "ann"] == [13, 13, 13, 93, 93, 93]


async def test_handler_prints_and_commits_every_message(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [run] = [text for text in MESSAGES.split("\n\n\n") if text.startswith("async def main")]
    run, header = run.replace("Orders()", "Prints()"), "import trio\nfrom sarameya import Config, ConsumerGroup"
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 3, 0)
        fill(cluster, 4, 1)
        program = shown("\n\n\n".join([header, HANDLER, run, "trio.run(main)"]), cluster, monkeypatch)
        nursery.start_soon(program.main)
        await eventually(lambda: sum(one.offset for one in cluster.committed("billing").values()) == 7)
        await program.groups[0].close()
    assert len(capsys.readouterr().out.splitlines()) == 7


def test_packages_are_enough_for_the_demo() -> None:
    [command] = [block for block in blocks(PAGES["README"], "indented") if block.startswith("sudo ")]
    documented = command.split()[3:]
    bare = {**os.environ, "PATH": "", "JAVA_HOME": "/nowhere"}  # a machine without any of these packages
    need = ["/bin/sh", str(ROOT / ".ci" / "need"), "--packages", "python", "java"]
    done = subprocess.run(need, env=bare, capture_output=True, text=True, check=True)
    assert [one for one in documented if one != "make"] == done.stdout.split()


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
        while not cluster.committed("orders-landing"):  # the start offset, by default the log end
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
