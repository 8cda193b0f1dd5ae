"""Spark's program: Structured Streaming from Spark's Kafka source into its Parquet sink, or Delta's."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyspark.sql import SparkSession

from bench.common.events import parse
from bench.land.programs.landing import TABLE, WARM, Outcome, Source, Stages, Stopwatch, Task, jvm_pid, options
from sarameya_handlers.spark.engines.jvm import spark_jvm


def _main(task: Task) -> Outcome:
    """Land the first topic, then the other one with a running clock."""
    running = spark_jvm.start(options(task))
    try:
        spark = running.session
        _land(task, spark, task.warm, task.place(WARM, "s3a"))
        stopwatch = Stopwatch(jvm_pid(spark))
        return stopwatch.outcome(*_land(task, spark, task.full, task.place(TABLE, "s3a")))
    finally:
        running.stop()


def _land(task: Task, spark: SparkSession, source: Source, table: str) -> tuple[Stages, int]:
    read = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", task.bootstrap)
        .option("subscribe", source.topic)
        .option("startingOffsets", "earliest")
        # Our table has this column, too.
        .option("includeHeaders", "true")
        .load()
    )
    query = (
        (parse(read) if task.is_parsed else read)
        .writeStream.format(task.kind)
        .option("path", table)
        .option("checkpointLocation", f"{table}-checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = query.recentProgress
    return _stages(progress), len(progress)


def _stages(progress: Any) -> Stages:
    """Return the seconds of all batches by stage, as Spark reports them."""
    milliseconds: Counter[str] = Counter()
    for batch in progress:
        milliseconds.update(batch["durationMs"])
    return {name: milliseconds[name] / 1000 for name in ("queryPlanning", "addBatch", "walCommit", "commitOffsets")}


if __name__ == "__main__":
    print(_main(Task.of_command_line()).to_json(), flush=True)
