"""The commands on tables: `sarameya verify`, `sarameya sweep`, `sarameya rewind` and `sarameya compact`.

gathering.py  reads the table             cluster.py   reads committed offsets and logs
facts.py      what was read (pure)        spans.py     offset ranges whose rows are counted together
counting.py   rows by span, with Spark    arrow_counting.py  the same without Spark
verdict*.py   facts to findings (pure)    findings.py  codes and severities
report.py     text and JSON (pure)        *_command.py the command lines
rewinding.py, sweeping.py                 plans of rewind and sweep (pure)
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from sarameya_handlers.audit.findings import Code, Finding, Severity
from sarameya_handlers.audit.gathering import Audit, read_heads, table_facts
from sarameya_handlers.audit.verdict import is_proved, judge
from sarameya_handlers.spark.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Code", "Finding", "Severity", "is_proved", "verify_table"]


def verify_table(spark: SparkSession | None, table: Table) -> list[Finding]:
    """Verify a table without a cluster, and return all findings; `is_proved` judges them. Blocking.

    Args:
        spark: May be None if `Table.needs_spark` is not set.
        table: The table.

    Raises:
        Exception: Whatever the table raises if it cannot be read.
    """
    audit = Audit(table=table, by_spark=table.needs_spark)
    session = cast("SparkSession", spark)  # a table that needs no session ignores it
    return judge(table_facts(session, audit, read_heads(session, table), time.time()))
