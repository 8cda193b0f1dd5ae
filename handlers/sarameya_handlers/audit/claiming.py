"""Whether a command may commit to a table with a Spark driver of its own, which members have theirs beside.

Of some tables (Delta, and Iceberg in a Hadoop catalog, on a local or mounted file system) two drivers that commit at
once lose a commit. Members with a driver of their own lease such a table; those that share a Spark Connect server hold
no lease, and may be on other machines: of them only the operator knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sarameya import ConfigError
from sarameya_handlers.spark.engines.lease import take_lease
from sarameya_handlers.spark.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ADVICE = (
    "where members share a Spark Connect server let that do it (--spark sc://HOST:PORT), else stop them meanwhile, "
)


def claim_driver(spark: SparkSession, table: Table, *, is_single: bool) -> None:
    """Have this process's driver be the only one that commits to the table, where it has to be. `is_single`: the
    operator says that it is. Raises ConfigError where nobody says so, HandlerError where another one is known."""
    lock = table.driver_lock(spark)
    if lock is None:
        return
    if not is_single:
        raise ConfigError(
            "--single-driver",
            False,
            f"{table.name} loses commits of two Spark drivers at once, and this one is the command's own: {_ADVICE}"
            "and say --single-driver",
        )
    take_lease(
        lock,
        f"{table.name}: a member, or another command, has a driver of its own, and the table loses commits of two "
        f"at once: {_ADVICE}and try again",
    )
