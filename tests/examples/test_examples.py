"""Each example runs as its reader would run it: as a program, or with `sarameya run` for app files."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from sarameya.embedded import EmbeddedCluster

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[2] / "examples"


def printed(name: str, timeout: float = 60, *unless: str) -> str:
    """Return the output of `examples/NAME`, which must exit with 0 and without warnings."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *unless, EXAMPLES / name],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


def test_handler_counts_all_orders_and_exits() -> None:
    assert printed("handler.py") == "1000 orders of 499500 in all; 1000 committed\n"


def test_standalone_adds_up_the_last_hour_and_commits() -> None:
    assert printed("standalone.py") == "300 ordered in the last hour; 120 committed\n"


def test_weighted_gives_the_larger_machine_three_times_as_much() -> None:
    assert printed("weighted.py") == "of eight partitions the small one has 2, the large one 6\n"


def test_invoices_are_complete_although_the_member_is_removed() -> None:
    line = printed("invoices.py")
    assert re.fullmatch(r"1000 of 1000 orders have an invoice; \d+ of the invoices were written twice\n", line)


def test_streams_share_partitions_and_respect_a_pause() -> None:
    assert printed("streams.py").splitlines() == [
        "before the last partition is resumed: [200, 200, 200, 200, 200, 0]",
        "streams of [[0, 1, 2], [3, 4, 5]]: [200, 200, 200, 200, 200, 200]; 1200 committed",
    ]


def test_ledger_counts_every_order_once_despite_faults() -> None:
    # PySpark's collect reads from a socket's file, and leaves the socket to the garbage collector.
    assert printed("ledger.py", 300, "-W", "ignore:unclosed:ResourceWarning") == "1000 orders of 499500 in all\n"


async def run_app_file(
    name: str, changes: dict[str, str], cluster: EmbeddedCluster, directory: Path, done: Callable[[], bool]
) -> str:
    """Run `examples/NAME` against `cluster`, in `directory`, until `done`. Return its output."""
    text = (EXAMPLES / name).read_text()
    for before, after in {"localhost:9092": cluster.bootstrap_servers[0], **changes}.items():
        assert text.count(f" = {before}") == 1 or text.count(f'["{before}"]') == 1
        text = text.replace(before, after)
    app_file = directory / name
    app_file.write_text(text)
    output = directory / "output"
    with output.open("wb") as stdout:
        command = [sys.executable, "-W", "error", "-m", "sarameya.service", "run", str(app_file)]
        process = await trio.lowlevel.open_process(command, cwd=directory, stdout=stdout)
    try:
        with trio.fail_after(60):
            while not done():
                assert process.returncode is None
                await trio.sleep(0.05)
            process.terminate()
            assert await process.wait() == 0
    finally:
        with trio.CancelScope(shield=True):
            process.kill()
            await process.wait()
    return output.read_text()


async def test_print_app_prints_a_line_for_each_record(tmp_path: Path) -> None:
    async with EmbeddedCluster(topics={"orders": 4}) as cluster:
        for number in range(4):
            cluster.produce("orders", number, b"hello %d" % number)

        def all_committed() -> bool:
            return [offset.offset for offset in cluster.committed("printing").values()] == [1, 1, 1, 1]

        printed = await run_app_file("print.toml", {}, cluster, tmp_path, all_committed)
    lines = printed.splitlines()
    assert len(lines) == 4
    assert all(any(f"hello {number}" in line for line in lines) for number in range(4))


async def test_landing_app_lands_every_record_as_parquet(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        for number in range(10):
            cluster.produce("orders", number % 2, b"order %d" % number)

        def all_committed() -> bool:
            return sum(offset.offset for offset in cluster.committed("orders-landing").values()) == 10

        await run_app_file("landing.toml", {"30.0": "0.5"}, cluster, tmp_path, all_committed)
    landed = pq.read_table(tmp_path / "landing" / "orders")
    assert sorted(landed["value"].to_pylist()) == [b"order %d" % number for number in range(10)]
