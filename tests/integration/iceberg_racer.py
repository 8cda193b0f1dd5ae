"""A process that races another process for the links of an Iceberg chain: `python -m tests.integration.iceberg_racer`.

    (parent) number of a link ─► "staged": its rows are staged, unpublished ─► (parent) go ─► a line of JSON: the winner

The parent releases both processes at the same time, so both see that the link is free, and publish it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sarameya_handlers import SparkOptions
from sarameya_handlers.spark.engines.jvm import spark_jvm
from sarameya_handlers.spark.iceberg.table import IcebergTable
from sarameya_handlers.spark.tables.table import Landing, Phase
from tests.integration.iceberg_stage import land, link

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 10


def send(text: str) -> None:
    print(text, flush=True)


def receive() -> str:
    line = sys.stdin.readline()
    if not line:
        raise SystemExit("the parent process has ended")
    return line.strip()


def main(properties: str, name: str) -> None:
    running = spark_jvm.start(SparkOptions(master="local[2]", conf=json.loads(properties)))
    try:
        table = IcebergTable(name)
        table.open(running.session)
        send("open")
        while (number := int(receive())) > 0:
            send(json.dumps(race(running.session, table, number)))
    finally:
        running.stop()


def race(spark: SparkSession, table: IcebergTable, number: int) -> dict[str, object]:
    """Race for one link. Return the own attempt, the winner, the number of links found, and the errors so far."""
    mine = link(number, (number - 1) * ROWS, number * ROWS)
    errors: list[str] = []
    has_started = False

    def await_start(phase: Phase, landings: Sequence[Landing]) -> None:
        nonlocal has_started
        if not has_started:
            has_started = True
            send("staged")
            assert receive() == "go"

    links = []
    while not links:
        try:
            land(spark, table, mine, checkpoint=await_start)
        except Exception as error:
            errors.append(str(error)[:2000])
        links = list(table.links(spark, mine.key, number))
        if len(errors) > 5:
            raise SystemExit("\n".join(errors))
    return {"mine": mine.attempt, "winner": links[0].attempt, "found": len(links), "errors": errors}


if __name__ == "__main__":
    main(*sys.argv[1:])
