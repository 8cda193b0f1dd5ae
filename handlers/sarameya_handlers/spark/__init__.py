"""The Spark sink. Importing it imports neither pyspark nor pyarrow; starting Spark does.

sink.py      the handler: where partitions begin, by their chains in the table; sink_options.py: from an app file
partition.py one claim: collected, landed, marked        buffer.py    what is collected of it (pure)
lander.py    whose landings share a job of Spark's       landing.py   one flush in Spark's thread
tables/      what is landed in; parquet/, delta/, iceberg/     engines/     Spark's life
shaping/     what becomes of records                     poison/      which of them cannot land
options.py   what may be configured                      sharing.py   one Spark for all workers
errors.py    what goes wrong
"""

from sarameya_handlers.spark.delta.table import DeltaTable
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.iceberg.table import IcebergTable
from sarameya_handlers.spark.options import SparkOptions
from sarameya_handlers.spark.parquet.reader import landed_files, read_landing
from sarameya_handlers.spark.parquet.table import ParquetTable
from sarameya_handlers.spark.shaping.partitions import with_event_date
from sarameya_handlers.spark.sink import SparkSink
from sarameya_handlers.spark.tables.foreach_batch import ForeachBatch, Ledger
from sarameya_handlers.spark.tables.table import Landing, Layout, Phase, Table

__all__ = [
    "DeltaTable",
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
    "landed_files",
    "read_landing",
    "with_event_date",
]
