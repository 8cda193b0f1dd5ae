"""Check that no other Spark driver commits to a table while a command with its own driver does.

Some tables (Delta, and Iceberg in a Hadoop catalog, on a local or mounted file system) lose a commit if two drivers
commit at once. Members with their own driver hold a lease of such a table. Members that share a Spark Connect server
hold none, and may run on other machines: only the operator knows about them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sarameya import ConfigError
from sarameya_handlers.spark.engines.lease import take_lease
from sarameya_handlers.spark.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ADVICE = "if members share a Spark Connect server, use that (--spark sc://HOST:PORT), else stop them meanwhile, "


def lock_for_driver(spark: SparkSession, table: Table, *, confirmed: bool) -> None:
    """Make this process's driver the only one that commits to the table, if the table needs that.

    Args:
        spark: A session of this process's driver.
        table: The table.
        confirmed: The operator confirms that no other driver commits.

    Raises:
        ConfigError: The operator does not confirm it.
        HandlerError: Another driver holds the lease.
    """
    lock = table.driver_lock(spark)
    if lock is None:
        return
    if not confirmed:
        raise ConfigError(
            "--single-driver",
            False,
            f"{table.name} loses commits if two Spark drivers commit at once, and this command has its own: {_ADVICE}"
            "and add --single-driver",
        )
    take_lease(
        lock,
        f"{table.name}: a member, or another command, has its own driver, and the table loses commits of two at once: "
        f"{_ADVICE}and try again",
    )
