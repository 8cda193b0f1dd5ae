"""Stock handlers for Sarameya. This package imports neither pyspark nor pyarrow until they are needed.

printing.py   PrintHandler: a line for each message
spark/        SparkSink: partitions land in tables through Spark
landing/      the exactly-once protocol: chains of links, for any kind of table
audit/        the commands verify, sweep, rewind, compact
commands.py   the entry points of all commands
"""

from typing import TYPE_CHECKING

from sarameya.exports import lazy_names

if TYPE_CHECKING:
    from sarameya_handlers.landing.links import ChainKey, Kind, Link, Origin
    from sarameya_handlers.landing.stores.options import StoreOptions
    from sarameya_handlers.printing import PrintHandler
    from sarameya_handlers.spark import (
        DeltaTable,
        ForeachBatch,
        IcebergTable,
        LandingError,
        Layout,
        Ledger,
        ParquetTable,
        SparkOptions,
        SparkSink,
        landed_files,
        read_landing,
        with_event_date,
    )
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".landing.links": "ChainKey Kind Link Origin",
            ".landing.stores.options": "StoreOptions",
            ".printing": "PrintHandler",
            ".spark": (
                "DeltaTable ForeachBatch IcebergTable LandingError Layout Ledger ParquetTable SparkOptions "
                "SparkSink landed_files read_landing with_event_date"
            ),
        },
    )

__all__ = [
    "ChainKey",
    "DeltaTable",
    "ForeachBatch",
    "IcebergTable",
    "Kind",
    "LandingError",
    "Layout",
    "Ledger",
    "Link",
    "Origin",
    "ParquetTable",
    "PrintHandler",
    "SparkOptions",
    "SparkSink",
    "StoreOptions",
    "landed_files",
    "read_landing",
    "with_event_date",
]
