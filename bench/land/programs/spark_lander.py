"""Spark Structured Streaming: its own Kafka source into its own Parquet sink, or Delta's, with a checkpoint."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.common.events import parse
from bench.land.programs.landing import TABLE, Outcome, Source, Stages, Stopwatch, Task, jvm_pid, options
from sarameya_handlers.spark.engines.jvm import spark_jvm


def _main(task: Task) -> Outcome:
    """Land the one topic, then the other with the clock running."""
    running = spark_jvm.start(options(task))
    try:
        spark = running.session
        _land(task, spark, task.warm, Path(task.directory, "warm"))
        stopwatch = Stopwatch(jvm_pid(spark))
        return stopwatch.outcome(*_land(task, spark, task.full, Path(task.directory, TABLE)))
    finally:
        running.stop()


def _land(task: Task, spark: SparkSession, source: Source, table: Path) -> tuple[Stages, int]:
    read = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", task.bootstrap)
        .option("subscribe", source.topic)
        .option("startingOffsets", "earliest")
        # The same columns as ours.
        .option("includeHeaders", "true")
        .load()
    )
    query = (
        (parse(read) if task.is_parsed else read)
        .writeStream.format(task.kind)
        .option("path", f"file://{table}")
        .option("checkpointLocation", f"file://{table}-checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = query.recentProgress
    return _stages(progress), len(progress)


def _stages(progress: Any) -> Stages:
    """Its own account of where its batches' seconds went."""
    told: Counter[str] = Counter()
    for batch in progress:
        told.update(batch["durationMs"])
    return {name: told[name] / 1000 for name in ("queryPlanning", "addBatch", "walCommit", "commitOffsets")}


if __name__ == "__main__":
    print(_main(Task.of_command_line()).to_json(), flush=True)
