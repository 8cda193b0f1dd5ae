"""The Spark sink. Importing it imports neither pyspark nor pyarrow; starting Spark does.

sink.py      the handler: where partitions begin, by their chains in the table
partition.py one claim: collected, landed, marked        buffer.py    what is collected of it (pure)
lander.py    whose landings share a job of Spark's       landing.py   one flush in Spark's thread
table.py     the seam to a table; parquet.py, delta.py, iceberg.py, foreach_batch.py
errors.py    what goes wrong
engine.py    the only way into Spark, and who has which; keeping.py: another when it has died; starting.py
pool.py      sessions, threads, cancellation             driver.py    the seam to classic.py and connect.py
jvm.py       classic Spark's JVM: jvm_launch.py, jvm_output.py; java.py what must be installed
sharing.py   one Spark for all workers                   reach.py     whether Spark sees what we stage
options.py   what may be configured
"""

from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.foreach_batch import ForeachBatch, Ledger
from sarameya_handlers.spark.iceberg import IcebergTable
from sarameya_handlers.spark.options import SparkOptions
from sarameya_handlers.spark.parquet import ParquetTable, read_landing
from sarameya_handlers.spark.sink import SparkSink
from sarameya_handlers.spark.table import Landing, Layout, Phase, Table

__all__ = [
    "ForeachBatch",
    "IcebergTable",
    "Landing",
    "LandingError",
    "Layout",
    "Ledger",
    "ParquetTable",
    "Phase",
    "SparkOptions",
    "SparkSink",
    "Table",
    "read_landing",
]
