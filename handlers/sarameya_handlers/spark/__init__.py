"""The Spark sink. Importing it imports neither pyspark nor pyarrow; starting Spark does.

sink.py      the handler: when a partition lands, when it is marked
buffer.py    what is collected of a partition (pure)
landing.py   one landing from Arrow to the table
table.py     the seam to a table, parquet.py the one there is
engine.py    Spark's lifetime and threads; jvm.py its JVM; java.py what must be installed
options.py   what may be configured
"""

from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.options import SparkOptions
from sarameya_handlers.spark.parquet import ParquetTable
from sarameya_handlers.spark.sink import SparkSink
from sarameya_handlers.spark.table import Landing, Table

__all__ = ["Landing", "LandingError", "ParquetTable", "SparkOptions", "SparkSink", "Table"]
