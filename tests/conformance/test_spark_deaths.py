"""Spark dies under members that live on: the Connect server that they share, or their own JVM. The same link is tried
again with a Spark that has come back, and nobody leaves the group."""

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
from tests.conformance.judges import judged
from tests.conformance.members import Member, members
from tests.integration.connect_server import ConnectServer

pytestmark = pytest.mark.integration

KEY = ChainKey(SINK, TOPIC, 0)
IN_THE_JOB = 1.5
"""Seconds after a slow landing was staged: Spark is at its rows, which take three."""
MOST_SECONDS = 300.0
"""For what one landing of Spark's may take on a busy machine."""
MAX_JOBS = 20
"""Landings at which the server is to be caught."""
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
        assert member.sessions == 1, "it has stayed in the group"
        await group.close()
        async with judged(contender, place, log.bootstrap_servers) as judge:
            await judge.prove(log.ends)


@each("delta", "iceberg", exhaustive=["iceberg"])
async def test_connect_server_that_dies_and_comes_back_is_waited_for(
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
        await member.next_report("that it has staged", lambda report: report.get("phase") == Phase.STAGED)
        await trio.sleep(IN_THE_JOB)
        await trio.to_thread.run_sync(restart, server)
        await log.until_landed()
    print(f"{contender.name}: {len(phases) + 1} deaths of the server in {trio.current_time() - began:.0f} s")


def restart(server: ConnectServer) -> None:
    server.kill()
    server.start()


@each("delta")
async def test_server_dying_before_the_commit_has_landed_nothing(
    contender: Contender, place: Place, server: ConnectServer
) -> None:
    """Delta does not tell of this moment. A new data file that is whole does: Spark has closed it, and does not begin
    to commit it for some hundredths of a second. Where it has stood still too late, the next landing is tried."""
    table = place.directory / "table"
    async with one_member(contender, place) as (log, _):
        tries = 0
        while True:
            assert tries < MAX_JOBS, "each landing was committed before the server stood still"
            tries += 1
            commits, data = committed(table), data_files(table)
            log.produce(1)
            await trio.to_thread.run_sync(freeze_at_new_data, server, table, data)
            if committed(table) == commits:
                break
            server.thaw()
            await log.until_landed()
        server.kill()
        assert committed(table) == commits, "it stood still"
        (left,) = data_files(table) - data
        await trio.to_thread.run_sync(server.start)
        await log.until_landed()
        (commit,) = committed(table) - commits
        assert left not in (table / "_delta_log" / commit).read_text(), "the rows have been written anew"
    print(f"delta: killed before the commit at try {tries}")


def freeze_at_new_data(server: ConnectServer, table: Path, known: set[str]) -> None:
    """Returns when the server stands still, all of its threads."""
    end = time.monotonic() + MOST_SECONDS
    while not any(is_whole(table / name) for name in data_files(table) - known):
        assert time.monotonic() < end, "no data was written"
        time.sleep(0.001)
    server.freeze()
    while not stands_still(server.pid):
        time.sleep(0.001)


def data_files(table: Path) -> set[str]:
    return {name for name in os.listdir(table) if name.startswith("part-")}


def is_whole(file: Path) -> bool:
    """Return whether Spark has closed the file: a Parquet file begins and ends with its magic number."""
    content = file.read_bytes()
    return len(content) > len(PARQUET) and content.endswith(PARQUET)


def committed(table: Path) -> set[str]:
    return {path.name for path in (table / "_delta_log").glob("*.json")}


@each("parquet-classic", "delta-classic")
async def test_jvm_that_is_killed_is_replaced(contender: Contender, place: Place) -> None:
    began = trio.current_time()
    async with one_member(contender, place) as (log, member):
        await member.arm("stop", Phase.WRITTEN)
        log.produce(10)
        hit = await member.until_stopped()
        kill_jvm(member)
        member.resume()
        await log.until_landed()

        log.produce(60)
        await member.next_report("that it has staged", lambda report: report.get("phase") == Phase.STAGED)
        await trio.sleep(IN_THE_JOB)
        kill_jvm(member)
        await log.until_landed()
        async with judged(contender, place, log.bootstrap_servers) as judge:
            links = await judge.links(KEY)
        assert hit["attempts"][0] in attempts(links), "all was written, and a link needs no JVM"
    print(f"{contender.name}: 2 deaths of the JVM in {trio.current_time() - began:.0f} s")


def attempts(links: list[Link]) -> set[str]:
    return {link.attempt for link in links}


def kill_jvm(member: Member) -> None:
    (jvm,) = [pid for pid in children(member.process.pid) if Path(f"/proc/{pid}/comm").read_text().strip() == "java"]
    os.kill(jvm, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """All below that process."""
    direct = [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]
    return direct + [below for child in direct for below in children(child)]


def stands_still(pid: int) -> bool:
    """Return whether all threads of a process have stopped, according to the kernel."""
    try:
        stats = [(thread / "stat").read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):  # one has just ended
        return False
    return {stat.rpartition(")")[2].split()[0] for stat in stats} == {"T"}
