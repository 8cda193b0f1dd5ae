"""A program that lands through Spark in Delta and Iceberg tables whose disk is full for a while.

`python -m tests.integration.full_disk DIRECTORY` must run in its own mount namespace (see `test_full_disk.py`).
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
FREE_BYTES = (0, 8192, 24576, 40960, 57344, 73728)
"""Free bytes of the full disk in each round.

At first nothing fits, then the rows but not all files of their commit, and at last the commit, too, so that it lands.
"""


def shaped(frame: DataFrame) -> DataFrame:
    """Change the records, so that Spark has to write them."""
    return frame.selectExpr("topic", "partition", "offset", "value")


class RetryLog(logging.Handler):
    """A log handler that keeps the messages about retries."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "retrying in" in (text := record.getMessage()):
            self.messages.append(text)


def fill(ballast: Path, free_bytes: int) -> None:
    """Create a file that leaves only this many bytes free on its disk."""
    with ballast.open("wb") as file:
        status = os.statvfs(ballast)
        os.posix_fallocate(file.fileno(), 0, status.f_bavail * status.f_frsize - free_bytes)


async def land_in_a_full_disk(spark: SparkSession, table: Table, directory: Path) -> None:
    """Land with enough space, then with each of FREE_BYTES until a retry is logged, then with enough space again."""
    session, letters = FakeSession(), directory / "dead-letters"
    for number, free_bytes in enumerate((None, *FREE_BYTES)):
        first = number * RECORDS
        claim = FakeClaim(first)
        messages = [message(first + n, value=b"%d" % n) for n in range(RECORDS)]
        claim.send(MessageBatch("orders", 0, messages, first + RECORDS, from_offset=first))
        retries = RetryLog()
        logging.getLogger("sarameya.spark").addHandler(retries)
        sink = SparkSink(table, transform=shaped, spark=spark, dead_letters=FileDeadLetters(letters), max_rows=RECORDS)
        async with sink, trio.open_nursery() as nursery:
            if free_bytes is not None:
                fill(directory / "disk" / "ballast", free_bytes)
            nursery.start_soon(consume_in, sink, session, claim)
            landed = [("orders", 0, first + RECORDS)]
            with trio.fail_after(240):
                while free_bytes is not None and not retries.messages and session.marks[-1:] != landed:
                    await trio.sleep(0.1)
                print(table.name, free_bytes, "bytes free:", *retries.messages, flush=True)
                if retries.messages:
                    assert session.marks[-1:] == [("orders", 0, first)], "a failed flush marks nothing"
                assert retries.messages or free_bytes != 0
                (directory / "disk" / "ballast").unlink(missing_ok=True)
                while session.marks[-1:] != landed:
                    await trio.sleep(0.1)
            claim.end()
        logging.getLogger("sarameya.spark").removeHandler(retries)
    assert not letters.exists() or not list(letters.iterdir()), "a full disk makes no record a dead letter"
    offsets = sorted(row[0] for row in table.read(spark).select("offset").collect())
    assert offsets == list(range((1 + len(FREE_BYTES)) * RECORDS))


def main(directory: Path) -> None:
    disk = directory / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(disk)], check=True)
    staging = directory / "staging"
    with classic(disk) as spark:
        for table in (DeltaTable(disk / "delta", staging=staging), IcebergTable("ice.db.orders", staging=staging)):
            trio.run(land_in_a_full_disk, spark, table, directory)
            print(table.name, "has landed everything", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
