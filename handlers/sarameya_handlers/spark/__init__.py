"""The Spark sink. Importing it imports neither pyspark nor pyarrow; starting Spark does.

sink/              the handler: partitions, buffers, flushes, links
parquet/, delta/, iceberg/   the table formats           tables/     their common interface, and what they share
shaping/           from records to rows                  poison/     records that cannot be written
engines/           start, sharing and death of Spark
options.py         the sink's and Spark's options        session_settings.py   settings that Spark must have
land_command.py    the command `sarameya land`           arguments.py          --spark and --conf
errors.py          errors of Spark, as one line of text  error_sources.py      caused by records, statement or Spark?

Words (`landing/__init__.py` has link, chain, head, attempt and restated head): a `Landing` is one attempt together with
its staged records. A *flush* writes one or more of them with one call of `Table.land`, and usually one Spark job.
*Staged* records are in files that no reader of the table sees. A *shape* converts records to rows.

Imports go one way: sink, formats, poison, shaping, tables, engines, then the modules above.
"""

from typing import TYPE_CHECKING

from sarameya.exports import lazy_names

if TYPE_CHECKING:
    from sarameya_handlers.spark.delta.table import DeltaTable
    from sarameya_handlers.spark.errors import LandingError
    from sarameya_handlers.spark.iceberg.table import IcebergTable
    from sarameya_handlers.spark.options import SparkOptions
    from sarameya_handlers.spark.parquet.reader import landed_files, read_landing
    from sarameya_handlers.spark.parquet.table import ParquetTable
    from sarameya_handlers.spark.shaping.partitions import with_event_date
    from sarameya_handlers.spark.sink.spark_sink import SparkSink
    from sarameya_handlers.spark.tables.foreach_batch import ForeachBatch, Ledger
    from sarameya_handlers.spark.tables.table import Landing, Layout, Phase, Table
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".delta.table": "DeltaTable",
            ".errors": "LandingError",
            ".iceberg.table": "IcebergTable",
            ".options": "SparkOptions",
            ".parquet.reader": "landed_files read_landing",
            ".parquet.table": "ParquetTable",
            ".shaping.partitions": "with_event_date",
            ".sink.spark_sink": "SparkSink",
            ".tables.foreach_batch": "ForeachBatch Ledger",
            ".tables.table": "Landing Layout Phase Table",
        },
    )

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
