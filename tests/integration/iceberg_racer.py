"""A process that races another one for the links of an Iceberg chain: `python -m tests.integration.iceberg_racer`.

    (parent) n ─► "staged": its rows are staged, unpublished ─► (parent) go ─► a line of JSON: who it found has won

Both go on at once, so both look, see that it is their turn, and publish.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sarameya_handlers.spark.iceberg.table import IcebergTable
from sarameya_handlers.spark.tables.table import Landing, Phase
from tests.integration.iceberg_stage import land, link
from tests.integration.lake_stage import classic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 10


def say(text: str) -> None:
    print(text, flush=True)


def hear() -> str:
    line = sys.stdin.readline()
    if not line:
        raise SystemExit("nobody asks any more")
    return line.strip()


def main(directory: str, name: str) -> None:
    with classic(Path(directory), iceberg="jdbc") as spark:
        table = IcebergTable(name)
        table.open(spark)
        say("open")
        while (number := int(hear())) > 0:
            say(json.dumps(race(spark, table, number)))


def race(spark: SparkSession, table: IcebergTable, number: int) -> dict[str, object]:
    mine = link(number, (number - 1) * ROWS, number * ROWS)
    errors: list[str] = []
    has_started = False

    def together(phase: Phase, landings: Sequence[Landing]) -> None:
        nonlocal has_started
        if not has_started:
            has_started = True
            say("staged")
            assert hear() == "go"

    links = []
    while not links:
        try:
            land(spark, table, mine, checkpoint=together)
        except Exception as error:
            errors.append(str(error)[:2000])
        links = list(table.links(spark, mine.key, number))
        if len(errors) > 5:
            raise SystemExit("\n".join(errors))
    return {"mine": mine.attempt, "winner": links[0].attempt, "found": len(links), "errors": errors}


if __name__ == "__main__":
    main(*sys.argv[1:])
