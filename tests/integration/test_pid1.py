"""`sarameya` as the first process of a PID namespace, as in a container: signals reach it, and no zombie stays."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from sarameya.embedded import EmbeddedCluster
from tests.integration.processes import on_terminal
from tests.integration.test_run_command import DEADLINE, SARAMEYA, Running, app_file, committed
from tests.service.cli.test_entry_point import SLOW_IMPORT

pytestmark = pytest.mark.integration

FIRST = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--pid", "--fork", "--mount-proc"]

HANDLER = """
import trio
from sarameya import ConsumerGroupHandler

class Parent(ConsumerGroupHandler):
    "Starts children, and leaves orphans."
    async def consume_claim(self, session, claim):
        async for message in claim:
            for _ in range(20):
                await trio.run_process(["sh", "-c", "sleep 0.05 & exit 0"])
                done = await trio.run_process(["sh", "-c", "exit 7"], check=False)
                print("ended with", done.returncode, flush=True)
            session.mark_message(message)
"""


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def state(pid: int) -> str:
    """Return the process state from /proc: Z for a zombie."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@asynccontextmanager
async def first_process(directory: Path, *command: str) -> AsyncIterator[tuple[Running, int]]:
    """Run `command` as PID 1 of a new namespace. Yield it, and its id in the namespace of the test."""
    files = directory / "stdout", directory / "stderr"
    with files[0].open("wb") as stdout, files[1].open("wb") as stderr:
        process = await trio.lowlevel.open_process(
            [*FIRST, "--kill-child", "--", *command], cwd=directory, stdout=stdout, stderr=stderr
        )
    try:
        with trio.fail_after(DEADLINE):
            while not children(process.pid):
                await trio.sleep(0.01)
            yield Running(process, *files), children(process.pid)[0]
    finally:
        with trio.CancelScope(shield=True):
            process.kill()
            await process.wait()


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_signal_during_the_imports_ends_the_process(tmp_path: Path, signum: int, code: int) -> None:
    async with first_process(tmp_path, sys.executable, "-c", SLOW_IMPORT) as (running, first):
        await running.until(lambda r: r.stdout == ["importing"])
        os.kill(first, signum)
        with trio.fail_after(5):
            assert await running.process.wait() == code
    assert running.stderr == ""


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_signal_ends_the_run_in_order(tmp_path: Path, workers: str) -> None:
    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        app = app_file(tmp_path, cluster.bootstrap_servers, extra="heartbeat_interval = 0.2")
        async with first_process(tmp_path, SARAMEYA, "run", app, "--workers", workers) as (running, first):
            await running.until(lambda r: len(cluster.describe_group("g").members) == int(workers))
            cluster.produce("orders", 0, b"value")
            await running.until(lambda r: r.stdout == ["took value"])
            os.kill(first, signal.SIGTERM)
            assert await running.process.wait() == 0
        assert (committed(cluster), cluster.describe_group("g").members) == (1, ())
    assert [line["message"] for line in running.log].count("SIGTERM: stopping") == 1


async def test_second_signal_exits_at_once_with_its_own_code(tmp_path: Path) -> None:
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        cluster.produce("orders", 0, b"value")
        app = app_file(tmp_path, cluster.bootstrap_servers, handler="handlers_of_this_test:Slow")
        async with first_process(tmp_path, SARAMEYA, "run", app) as (running, first):
            await running.until(lambda r: r.stdout == ["took value"])
            os.kill(first, signal.SIGINT)
            await running.until(lambda r: "stopping" in r.stderr)
            os.kill(first, signal.SIGTERM)
            with trio.fail_after(2):
                assert await running.process.wait() == 143


async def test_orphans_are_reaped_and_exit_codes_kept(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(HANDLER)
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        cluster.produce("orders", 0, b"value")
        app = app_file(tmp_path, cluster.bootstrap_servers, handler="parent:Parent")
        async with first_process(tmp_path, SARAMEYA, "run", app) as (running, first):
            await running.until(lambda r: len(r.stdout) == 20)
            [service] = await trio.to_thread.run_sync(settled, first)
            assert state(service) != "Z"
            os.kill(first, signal.SIGTERM)
            assert await running.process.wait() == 0
    assert running.stdout == ["ended with 7"] * 20


def settled(first: int) -> list[int]:
    """Return the children of a process as soon as there is only one, or after a second."""
    for _ in range(50):
        if len(found := children(first)) == 1:
            return found
        trio.from_thread.run(trio.sleep, 0.02)
    return children(first)


async def test_ctrl_c_on_a_container_terminal_is_one_signal(tmp_path: Path) -> None:
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        app = app_file(tmp_path, cluster.bootstrap_servers)
        async with on_terminal(tmp_path, SARAMEYA, "run", app, before=[*FIRST, "--"]) as running:
            with trio.fail_after(DEADLINE):
                while not cluster.describe_group("g").members:
                    await trio.sleep(0.05)
                [first] = children(running.process.pid)
                [service] = children(first)
                # In one process group, the service would also get SIGINT from the init, and trio may see one or two.
                assert os.getpgid(service) != os.getpgid(first)
                await running.ctrl_c()
                assert await running.ended() == 0
    assert running.shown.count("SIGINT: stopping") == 1
    assert "exiting at once" not in running.shown
