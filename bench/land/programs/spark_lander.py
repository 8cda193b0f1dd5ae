"""Spark Structured Streaming: its own Kafka source into its own Parquet sink, with a checkpoint."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from bench.land.programs.landing import Source, Task, main


def _land(task: Task, spark: SparkSession, source: Source, table: Path) -> None:
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
        read.writeStream.format("parquet")
        .option("path", f"file://{table}")
        .option("checkpointLocation", f"file://{table}-checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    _task = Task.of_command_line()
    main(_task, lambda *what: _land(_task, *what))
