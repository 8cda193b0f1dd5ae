"""Stock handlers for Sarameya. Importing them costs neither pyspark nor pyarrow.

printing.py   PrintHandler: a line for each message
spark/        SparkSink: partitions land in tables through Spark
"""

from sarameya_handlers.printing import PrintHandler
from sarameya_handlers.spark import (
    ForeachBatch,
    IcebergTable,
    LandingError,
    Layout,
    Ledger,
    ParquetTable,
    SparkOptions,
    SparkSink,
    read_landing,
)

__all__ = [
    "ForeachBatch",
    "IcebergTable",
    "LandingError",
    "Layout",
    "Ledger",
    "ParquetTable",
    "PrintHandler",
    "SparkOptions",
    "SparkSink",
    "read_landing",
]
