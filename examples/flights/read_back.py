"""Reads a landing back through Spark and compares it with the log: a process of its own, JSON on its output.

Of its own, so that it can be ended at any moment, Spark's JVM included, and so that what Spark prints stays apart.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def main(landing: str, ends: list[int]) -> dict[str, Any]:
    """What has landed, against the log, which holds the offsets [0, ends[partition]) of each partition."""
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
    """The set of (partition, offset) in the landing against that of the log."""
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
    """Flights and mean arrival delay of each carrier, the busiest first; a row that has landed twice counts once."""
    rows = (
        landed.dropDuplicates(["partition", "offset"])
        .groupBy("carrier")
        .agg(F.count("*").alias("flights"), F.avg("arr_delay").alias("delay"))
        .orderBy(F.desc("flights"))
    )
    return [row.asDict() for row in rows.collect()]


if __name__ == "__main__":
    json.dump(main(sys.argv[1], [int(end) for end in sys.argv[2:]]), sys.stdout)
