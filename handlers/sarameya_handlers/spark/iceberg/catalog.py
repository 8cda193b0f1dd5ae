"""Names, catalogs and retention of Iceberg tables. Refuses tables for which exactly once cannot be guaranteed.

Spark's settings and the table's properties are arguments: the caller reads them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import attrs

from sarameya import ConfigError, HandlerError
from sarameya_handlers.spark.engines.lease import take_lease
from sarameya_handlers.spark.tables.expressions import literal, quoted

WAP_ID = "spark.wap.id"
WAP_BRANCH = "spark.wap.branch"
WAP_ENABLED = "write.wap.enabled"
SNAPSHOT_AGE = "history.expire.max-snapshot-age-ms"

CREATED_WITH = {
    WAP_ENABLED: "true",
    # Otherwise each commit leaves a metadata file behind for good, and each link makes two commits.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    # Members commit concurrently; by default a commit fails after it has lost four times in a row.
    "commit.retry.num-retries": "20",
}
"""Properties of a table that the sink creates."""

SHORTEST_RETENTION = 3600.0
"""Shortest accepted retention of snapshots, in seconds. A member must not sleep for longer than the retention between
staging and publishing a link."""
RESTATED_PER_RETENTION = 4
"""Number of times that an idle chain's head is rewritten within the retention."""

_DEFAULT_AGE_MS = 5 * 24 * 3600 * 1000
_ATOMIC_RENAME = ("hdfs", "viewfs")
_PART = re.compile(r"\w+|`(?:[^`]|``)+`")


@attrs.frozen(slots=True)
class TableName:
    """A table's name in Spark, `catalog.db.table`, in its various notations."""

    parts: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse a name. Raises ConfigError unless it has a catalog, a namespace and a table."""
        found = _PART.findall(text) if isinstance(text, str) else []
        if len(found) < 3 or ".".join(found) != text:
            raise ConfigError(
                "table",
                text,
                "must be CATALOG.DB.TABLE; names with characters other than letters, digits and _ need backticks",
            )
        return cls(tuple(part[1:-1].replace("``", "`") if part[0] == "`" else part for part in found))

    def __str__(self) -> str:
        return ".".join(part if re.fullmatch(r"\w+", part) else quoted(part) for part in self.parts)

    @property
    def catalog(self) -> str:
        return self.parts[0]

    @property
    def sql(self) -> str:
        return ".".join(map(quoted, self.parts))

    @property
    def namespace(self) -> str:
        return ".".join(map(quoted, self.parts[:-1]))

    @property
    def in_catalog(self) -> str:
        """The table's name within its catalog, as a string literal for the catalog's procedures."""
        return literal(".".join(map(quoted, self.parts[1:])))

    def metadata(self, table: str) -> str:
        """Return the name of one of the table's metadata tables."""
        return f"{self.sql}.{quoted(table)}"

    def procedure(self, name: str) -> str:
        return f"{quoted(self.catalog)}.system.{name}"


@attrs.frozen(slots=True)
class Catalog:
    """A catalog as Spark's settings describe it."""

    kind: str
    """`hadoop`, `hive`, `rest`, ..., or the class that implements it."""
    warehouse: str | None
    """The warehouse's directory, if it is on this machine."""
    is_cached: bool

    @classmethod
    def of(cls, name: str, setting: Callable[[str], str | None]) -> Self:
        """Read a catalog from Spark's properties.

        Args:
            name: The catalog's name.
            setting: Returns the value of a Spark property.

        Raises:
            HandlerError: The catalog is not an Iceberg catalog, or its commits are not atomic.
        """
        prefix = f"spark.sql.catalog.{name}"
        implementation = setting(prefix)
        if not implementation or not implementation.startswith("org.apache.iceberg.spark."):
            raise HandlerError(
                f"Spark has no Iceberg catalog {name!r} (it has {implementation}): set {prefix} to "
                f"org.apache.iceberg.spark.SparkCatalog, and {prefix}.type, .uri and .warehouse as your catalog needs"
            )
        kind = setting(f"{prefix}.catalog-impl") or setting(f"{prefix}.type") or "hive"
        warehouse = setting(f"{prefix}.warehouse")
        is_cached = (setting(f"{prefix}.cache-enabled") or "true").lower() == "true"
        catalog = cls("hadoop" if kind.endswith("HadoopCatalog") else kind, warehouse, is_cached)
        if catalog.kind == "hadoop" and catalog._scheme(setting) not in ("file", *_ATOMIC_RENAME):
            raise HandlerError(
                f"catalog {name!r} is a Hadoop catalog on {warehouse}, where two commits may both write the same "
                "version: object stores have no rename that fails if the new name exists. Use a REST, JDBC, Hive, Glue "
                "or Nessie catalog"
            )
        return attrs.evolve(catalog, warehouse=catalog._local(setting))

    @property
    def takes_one_driver(self) -> bool:
        """True if its commits are atomic only within one JVM."""
        return self.kind == "hadoop" and self.warehouse is not None

    def _scheme(self, setting: Callable[[str], str | None]) -> str:
        scheme = urlsplit(self.warehouse or "").scheme
        return scheme or urlsplit(setting("spark.hadoop.fs.defaultFS") or "").scheme or "file"

    def _local(self, setting: Callable[[str], str | None]) -> str | None:
        """Return the warehouse if it is a directory on this machine, else None."""
        if not self.warehouse or self._scheme(setting) != "file":
            return None
        path = urlsplit(self.warehouse).path if "://" in self.warehouse else self.warehouse.removeprefix("file:")
        if self.kind != "hadoop" and not os.path.isabs(path):
            return None  # the name of a warehouse of a catalog's server
        # Hadoop resolves a relative path where the JVM was started. Our own JVM starts in this directory.
        return os.path.abspath(path)


def retention(properties: Mapping[str, str], main_keeps: int | None) -> float:
    """Return the number of seconds for which a table keeps its snapshots.

    Args:
        properties: The table's properties.
        main_keeps: Retention of the main branch in milliseconds, if it has its own.

    Raises:
        HandlerError: The retention is too short.
    """
    keeps = int(properties.get(SNAPSHOT_AGE, _DEFAULT_AGE_MS))
    if keeps < SHORTEST_RETENTION * 1000:
        raise HandlerError(
            f"{SNAPSHOT_AGE} is {keeps}: a member that sleeps for so long between staging and publishing a link could "
            f"publish the link a second time; set it to at least {round(SHORTEST_RETENTION * 1000)}"
        )
    if main_keeps is not None and main_keeps < keeps:
        raise HandlerError(
            f"the main branch keeps its snapshots for {main_keeps} ms, less than {SNAPSHOT_AGE} ({keeps}): published "
            "snapshots would expire before staged ones. Let the branch keep them for as long (ALTER TABLE ... REPLACE "
            "BRANCH main WITH SNAPSHOT RETENTION ...)"
        )
    return keeps / 1000


def take_driver_lease(file: Path) -> None:
    """Make this process's driver the only one on this machine that commits to a Hadoop catalog.

    A Hadoop catalog on a local file system checks that a version's file is absent and then renames over it. Two drivers
    that do this at the same time lose a commit, and leave a table with wrong checksums. Within one JVM, Iceberg
    prevents that.

    Args:
        file: The lease's file.

    Raises:
        LandingError: Another process holds the lease.
        HandlerError: The lease cannot be written.
    """
    take_lease(
        file,
        "another process lands in this Hadoop catalog with a Spark driver of its own, and on a local file system two "
        "drivers' commits are not atomic: let members share one Spark Connect server (spark.master = 'sc://...', or "
        "spark.share = true for the workers of one service), or use a REST or JDBC catalog",
    )
