"""Spark dies while its members live on: the Connect server that they share, or their own JVM.

The same link is retried when Spark is back, and no member leaves the group.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from sarameya_handlers.landing.links import Link
from sarameya_handlers.spark.tables.table import Phase
from tests.conformance.brokers import SINK, TOPIC, Broker, ChainKey, broker
from tests.conformance.contenders import Contender, Place, each
from tests.conformance.members import Member, members
from tests.conformance.table_checks import judged
from tests.integration.connect_server import ConnectServer

pytestmark = [pytest.mark.integration, pytest.mark.landing(what="Spark dies")]

KEY = ChainKey(SINK, TOPIC, 0)
IN_THE_JOB = 1.5
"""Seconds from the staging of a slow batch to a moment when Spark processes its rows, which takes three seconds."""
MOST_SECONDS = 300.0
"""Timeout of one landing with Spark on a busy machine."""
MAX_JOBS = 20
"""Number of landings in which the test tries to freeze the server before its commit."""
PARQUET = b"PAR1"


@asynccontextmanager
async def one_member(contender: Contender, place: Place) -> AsyncIterator[tuple[Broker, Member]]:
    """Run a member that has landed once when the block begins. At its end no session and no record may be lost."""
    config = {"session_timeout": 60.0}  # a start of Spark may take all of a busy machine
    async with (
        broker() as log,
        members(contender, place, log.bootstrap_servers, [TOPIC], config=config, sink={"max_rows": 60}) as group,
    ):
        member = await group.start(is_slow=True)
        await member.join()
        log.produce(1)
        await log.until_landed()
        yield log, member
        assert member.sessions == 1, "it never lost its membership"
        await group.close()
        async with judged(contender, place, log.bootstrap_servers) as judge:
            await judge.prove(log.ends)


@each("delta", "iceberg", exhaustive=["iceberg"])
async def test_connect_server_that_restarts_is_waited_for(
    contender: Contender, place: Place, server: ConnectServer
) -> None:
    began = trio.current_time()
    phases = [phase for phase in (Phase.WRITTEN, Phase.LINKED) if phase in contender.phases]
    async with one_member(contender, place) as (log, member):
        for phase in phases:
            await member.arm("stop", phase)
            log.produce(10)
            await member.until_stopped()
            await trio.to_thread.run_sync(restart, server)
            member.resume()
            await log.until_landed()

        log.produce(60)
        await member.next_report("staging a batch", lambda report: report.get("phase") == Phase.STAGED)
        await trio.sleep(IN_THE_JOB)
        await trio.to_thread.run_sync(restart, server)
        await log.until_landed()
    print(f"{contender.name}: {len(phases) + 1} deaths of the server in {trio.current_time() - began:.0f} s")


def restart(server: ConnectServer) -> None:
    server.kill()
    server.start()


@each("delta")
async def test_server_killed_before_its_commit_has_landed_nothing(
    contender: Contender, place: Place, server: ConnectServer
) -> None:
    """Delta reports no phase between the write and the commit.

    A new, complete data file marks that moment: Spark has closed it, and commits it some hundredths of a second later.
    If the server freezes too late, the test tries the next landing.
    """
    table = place.directory / "table"
    async with one_member(contender, place) as (log, _):
        tries = 0
        while True:
            assert tries < MAX_JOBS, "each landing was committed before the server froze"
            tries += 1
            commits, data = committed(table), data_files(table)
            log.produce(1)
            await trio.to_thread.run_sync(freeze_at_new_data, server, table, data)
            if committed(table) == commits:
                break
            server.thaw()
            await log.until_landed()
        server.kill()
        assert committed(table) == commits, "the server was frozen"
        (orphan,) = data_files(table) - data
        await trio.to_thread.run_sync(server.start)
        await log.until_landed()
        (commit,) = committed(table) - commits
        assert orphan not in (table / "_delta_log" / commit).read_text(), "the rows were written again"
    print(f"delta: killed before the commit in attempt {tries}")


def freeze_at_new_data(server: ConnectServer, table: Path, known: set[str]) -> None:
    """Freeze the server when it has written a new data file. Return when all its threads have stopped."""
    end = time.monotonic() + MOST_SECONDS
    while not any(is_complete(table / name) for name in data_files(table) - known):
        assert time.monotonic() < end, "no data was written"
        time.sleep(0.001)
    server.freeze()
    while not is_frozen(server.pid):
        time.sleep(0.001)


def data_files(table: Path) -> set[str]:
    return {name for name in os.listdir(table) if name.startswith("part-")}


def is_complete(file: Path) -> bool:
    """Return whether Spark has closed the file: a Parquet file begins and ends with its magic number."""
    content = file.read_bytes()
    return len(content) > len(PARQUET) and content.endswith(PARQUET)


def committed(table: Path) -> set[str]:
    return {path.name for path in (table / "_delta_log").glob("*.json")}


@each("parquet-classic", "delta-classic")
async def test_killed_jvm_is_replaced(contender: Contender, place: Place) -> None:
    began = trio.current_time()
    async with one_member(contender, place) as (log, member):
        await member.arm("stop", Phase.WRITTEN)
        log.produce(10)
        hit = await member.until_stopped()
        kill_jvm(member)
        member.resume()
        await log.until_landed()

        log.produce(60)
        await member.next_report("staging a batch", lambda report: report.get("phase") == Phase.STAGED)
        await trio.sleep(IN_THE_JOB)
        kill_jvm(member)
        await log.until_landed()
        async with judged(contender, place, log.bootstrap_servers) as judge:
            links = await judge.links(KEY)
        assert hit["attempts"][0] in attempts(links), "all rows were written, and the link needs no JVM"
    print(f"{contender.name}: 2 deaths of the JVM in {trio.current_time() - began:.0f} s")


def attempts(links: list[Link]) -> set[str]:
    return {link.attempt for link in links}


def kill_jvm(member: Member) -> None:
    (jvm,) = [pid for pid in descendants(member.process.pid) if Path(f"/proc/{pid}/comm").read_text().strip() == "java"]
    os.kill(jvm, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Return the ids of all descendants of a process."""
    direct = [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]
    return direct + [descendant for child in direct for descendant in descendants(child)]


def is_frozen(pid: int) -> bool:
    """Return whether all threads of a process have stopped, according to the kernel."""
    try:
        stats = [(thread / "stat").read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):  # a thread has just ended
        return False
    return {stat.rpartition(")")[2].split()[0] for stat in stats} == {"T"}
