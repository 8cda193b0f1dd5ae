"""The audit of a table: `sarameya verify`, `sarameya sweep`, `sarameya rewind`; and `sarameya compact`.

facts.py      what is gathered            spans.py     which offsets' rows are counted together
verdict*.py   what it amounts to (pure)   findings.py  codes, severities
counting.py   rows by span, with Spark    arrow_counting.py  the same without
gathering.py  what the table tells        cluster.py   what groups and logs tell
report.py     text and documents (pure)   *_command.py the command lines
rewinding.py, sweeping.py                 what is planned (pure)
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
    """All that is found of a table, without a cluster; `is_proved` says what it amounts to. Blocking.

    `spark` may be None where `Table.needs_spark` is not set. Raises what the table raises where it cannot be asked.
    """
    audit = Audit(table=table, by_spark=table.needs_spark)
    session = cast("SparkSession", spark)  # a table that needs none is given none, and does not look at it
    return judge(table_facts(session, audit, read_heads(session, table), time.time()))
