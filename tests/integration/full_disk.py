"""A member that lands, through Spark, in tables whose disk is full for a while. Run in a mount namespace of its own.

python -m tests.integration.full_disk DIRECTORY
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from sarameya import MessageBatch
from sarameya_handlers import DeltaTable, IcebergTable, SparkSink
from sarameya_handlers.landing.dead_letters.files import FileDeadLetters
from tests.handlers.kit import FakeClaim, FakeSession, message
from tests.handlers.spark.kit import consume_in
from tests.integration.lake_stage import classic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sarameya_handlers.spark.tables.table import Table

RECORDS = 10
LEFT = (0, 8192, 24576, 40960, 57344, 73728)
"""Bytes that the full disk has left: for nothing; for the rows, and not for all that a commit writes of them; at last
for that, too, and then it lands."""


def shaped(frame: DataFrame) -> DataFrame:
    """Change the records, so that Spark has to write them."""
    return frame.selectExpr("topic", "partition", "offset", "value")


class Tries(logging.Handler):
    """Counts the waits that were logged."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "the next try is in" in (text := record.getMessage()):
            self.told.append(text)


def fill(ballast: Path, left: int) -> None:
    with ballast.open("wb") as file:
        free = os.statvfs(ballast)
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - left)


async def land_in_a_full_disk(spark: SparkSession, table: Table, directory: Path) -> None:
    session, letters = FakeSession(), directory / "dead-letters"
    for turn, left in enumerate((None, *LEFT)):
        first = turn * RECORDS
        claim = FakeClaim(first)
        messages = [message(first + n, value=b"%d" % n) for n in range(RECORDS)]
        claim.send(MessageBatch("orders", 0, messages, first + RECORDS, from_offset=first))
        tries = Tries()
        logging.getLogger("sarameya.spark").addHandler(tries)
        sink = SparkSink(table, transform=shaped, spark=spark, dead_letters=FileDeadLetters(letters), max_rows=RECORDS)
        async with sink, trio.open_nursery() as nursery:
            if left is not None:
                fill(directory / "disk" / "ballast", left)
            nursery.start_soon(consume_in, sink, session, claim)
            landed = [("orders", 0, first + RECORDS)]
            with trio.fail_after(240):
                while left is not None and not tries.told and session.marks[-1:] != landed:
                    await trio.sleep(0.1)
                print(table.name, left, "bytes left:", *tries.told, flush=True)
                if tries.told:
                    assert session.marks[-1:] == [("orders", 0, first)], "nothing more is marked"
                assert tries.told or left != 0
                (directory / "disk" / "ballast").unlink(missing_ok=True)
                while session.marks[-1:] != landed:
                    await trio.sleep(0.1)
            claim.end()
        logging.getLogger("sarameya.spark").removeHandler(tries)
    assert not letters.exists() or not list(letters.iterdir()), "a full disk is no record's fault"
    offsets = sorted(row[0] for row in table.read(spark).select("offset").collect())
    assert offsets == list(range((1 + len(LEFT)) * RECORDS))


def main(directory: Path) -> None:
    disk = directory / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(disk)], check=True)
    staging = directory / "staging"
    with classic(disk) as spark:
        for table in (DeltaTable(disk / "delta", staging=staging), IcebergTable("ice.db.orders", staging=staging)):
            trio.run(land_in_a_full_disk, spark, table, directory)
            print(table.name, "goes on", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
