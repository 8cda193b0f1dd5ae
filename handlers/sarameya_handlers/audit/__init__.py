"""The commands on tables: `sarameya verify`, `sarameya sweep`, `sarameya rewind` and `sarameya compact`.

commands/         the command lines
verify/           facts of a table, the verdict on them, and the report
facts.py          facts about a table and its cluster (pure)
cluster.py        reads committed offsets and logs
sweep_plan.py     the files that a sweep removes (pure)
rewind_plan.py    the offsets that a rewind commits (pure)
driver_check.py   whether a command may commit with its own Spark driver
spark_thread.py   runs blocking calls in a thread
wording.py        numbers in sentences (pure)
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from sarameya_handlers.audit.verify.fact_collection import Audit, read_heads, table_facts
from sarameya_handlers.audit.verify.findings import Code, Finding, Severity
from sarameya_handlers.audit.verify.verdict import is_proved, judge
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
