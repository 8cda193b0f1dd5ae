"""Reads the table back through Spark, and compares it with the log. Prints a JSON document.

This is a separate process, so that it can be killed at any moment together with Spark's JVM, and so that Spark's output
is separate from the demo's.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def main(landing: str, ends: list[int]) -> dict[str, Any]:
    """Return the report: the comparison, and the flights of each carrier.

    Args:
        landing: Directory of the table.
        ends: The log end of each partition; each log starts at offset 0.
    """
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("flights: reading back")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    try:
        landed = spark.read.parquet(landing)
        return compare(landed, ends) | {"carriers": by_carrier(landed)}
    finally:
        spark.stop()


def compare(landed: DataFrame, ends: list[int]) -> dict[str, int]:
    """Compare the pairs (partition, offset) of the table with those of the log. Return the numbers of rows."""
    places = landed.select("partition", "offset").toArrow()
    times = Counter(zip(places["partition"].to_pylist(), places["offset"].to_pylist(), strict=True))
    expected = {(partition, offset) for partition, end in enumerate(ends) for offset in range(end)}
    return {
        "landed": places.num_rows,
        "expected": len(expected),
        "duplicates": places.num_rows - len(times),
        "missing": len(expected - times.keys()),
        "unknown": len(times.keys() - expected),
    }


def by_carrier(landed: DataFrame) -> list[dict[str, Any]]:
    """Return flights and mean arrival delay of each carrier, busiest first. A row that has landed twice counts once."""
    rows = (
        landed.dropDuplicates(["partition", "offset"])
        .groupBy("carrier")
        .agg(F.count("*").alias("flights"), F.avg("arr_delay").alias("delay"))
        .orderBy(F.desc("flights"))
    )
    return [row.asDict() for row in rows.collect()]


if __name__ == "__main__":
    json.dump(main(sys.argv[1], [int(end) for end in sys.argv[2:]]), sys.stdout)
