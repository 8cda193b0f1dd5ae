"""Whether an Iceberg catalog and its table can be landed in exactly once, and what to do where they cannot.

Judges Spark's settings and a table's properties, which others look up.
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
from sarameya_handlers.spark.shaping.expressions import literal, quoted
from sarameya_handlers.spark.tables.lease import take_lease

WAP_ID = "spark.wap.id"
WAP_BRANCH = "spark.wap.branch"
WAP_ENABLED = "write.wap.enabled"
SNAPSHOT_AGE = "history.expire.max-snapshot-age-ms"

CREATED_WITH = {
    WAP_ENABLED: "true",
    # Else each commit leaves a file of metadata behind for good, and a landing makes two commits.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    # Members commit beside each other; who loses four times in a row gives up by default.
    "commit.retry.num-retries": "20",
}
"""The properties of a table that a landing creates."""

SHORTEST_RETENTION = 3600.0
"""Seconds that snapshots have to be kept for at least: no member may sleep for so long in the middle of a landing, and
wake to publish it."""
RESTATED_IN = 4
"""How many times an idle chain is re-stated while a snapshot is kept."""

_DEFAULT_AGE_MS = 5 * 24 * 3600 * 1000
_ATOMIC_RENAME = ("hdfs", "viewfs")
_PART = re.compile(r"\w+|`(?:[^`]|``)+`")


@attrs.frozen(slots=True)
class TableName:
    """A table's name in Spark, `catalog.db.table`, and ways to write it."""

    parts: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Self:
        """Raises ConfigError unless it names a catalog, a namespace and a table."""
        found = _PART.findall(text) if isinstance(text, str) else []
        if len(found) < 3 or ".".join(found) != text:
            raise ConfigError(
                "table",
                text,
                "must be CATALOG.DB.TABLE, where names with other than letters, digits and _ are quoted in backticks",
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
        """What the catalog's procedures take for it, as a literal."""
        return literal(".".join(map(quoted, self.parts[1:])))

    def metadata(self, table: str) -> str:
        """One of its metadata tables."""
        return f"{self.sql}.{quoted(table)}"

    def procedure(self, name: str) -> str:
        return f"{quoted(self.catalog)}.system.{name}"


@attrs.frozen(slots=True)
class Catalog:
    """What Spark's settings say of a catalog."""

    kind: str
    """`hadoop`, `hive`, `rest`, ... or the class that implements it."""
    warehouse: str | None
    is_cached: bool

    @classmethod
    def of(cls, name: str, setting: Callable[[str], str | None]) -> Self:
        """By what `setting` says of Spark's properties. Raises HandlerError for a catalog that is none of Iceberg's,
        or does not commit atomically."""
        prefix = f"spark.sql.catalog.{name}"
        implementation = setting(prefix)
        if not implementation or not implementation.startswith("org.apache.iceberg.spark."):
            raise HandlerError(
                f"Spark has no Iceberg catalog {name!r} (it has {implementation}): set {prefix} to "
                f"org.apache.iceberg.spark.SparkCatalog, and {prefix}.type, .uri and .warehouse as your catalog wants"
            )
        kind = setting(f"{prefix}.catalog-impl") or setting(f"{prefix}.type") or "hive"
        warehouse = setting(f"{prefix}.warehouse")
        is_cached = (setting(f"{prefix}.cache-enabled") or "true").lower() == "true"
        catalog = cls("hadoop" if kind.endswith("HadoopCatalog") else kind, warehouse, is_cached)
        if catalog.kind == "hadoop" and catalog._scheme(setting) not in ("file", *_ATOMIC_RENAME):
            raise HandlerError(
                f"catalog {name!r} is a Hadoop catalog on {warehouse}, where two commits may both take the same "
                "version: object stores have no rename that fails. Use a REST, JDBC, Hive, Glue or Nessie catalog"
            )
        return attrs.evolve(catalog, warehouse=catalog._local(setting))

    @property
    def takes_one_driver(self) -> bool:
        """Whether its commits are atomic within one JVM only."""
        return self.kind == "hadoop" and self.warehouse is not None

    def _scheme(self, setting: Callable[[str], str | None]) -> str:
        scheme = urlsplit(self.warehouse or "").scheme
        return scheme or urlsplit(setting("spark.hadoop.fs.defaultFS") or "").scheme or "file"

    def _local(self, setting: Callable[[str], str | None]) -> str | None:
        """The warehouse as a directory of this machine; None where it is none."""
        if not self.warehouse or self._scheme(setting) != "file":
            return None
        path = urlsplit(self.warehouse).path if "://" in self.warehouse else self.warehouse.removeprefix("file:")
        # Hadoop has one that is relative begin where the JVM was started, which is here where that is ours.
        return os.path.abspath(path)


def retention(properties: Mapping[str, str], main_keeps: int | None) -> float:
    """Seconds that a table's snapshots are kept for, by its properties and what its main branch says (milliseconds).

    Raises HandlerError where that is too short.
    """
    keeps = int(properties.get(SNAPSHOT_AGE, _DEFAULT_AGE_MS))
    if keeps < SHORTEST_RETENTION * 1000:
        raise HandlerError(
            f"{SNAPSHOT_AGE} is {keeps}: a member that sleeps for so long in the middle of a landing could wake and "
            f"land it twice; set it to {round(SHORTEST_RETENTION * 1000)} at least"
        )
    if main_keeps is not None and main_keeps < keeps:
        raise HandlerError(
            f"the main branch keeps its snapshots for {main_keeps} ms, less than {SNAPSHOT_AGE} ({keeps}): what was "
            "published would be forgotten before what was not. Let it keep them for as long (ALTER TABLE ... REPLACE "
            "BRANCH main WITH SNAPSHOT RETENTION ...)"
        )
    return keeps / 1000


def take_driver_lease(file: Path) -> None:
    """Make this process's driver the only one that commits, on this machine. Raises HandlerError where another does.

    A Hadoop catalog on a local file system looks whether a version is there, and then renames over it: two drivers that
    do so at once lose a commit, and leave a table whose checksums are wrong. Within one JVM Iceberg prevents that.
    """
    take_lease(
        file,
        "another process lands in this Hadoop catalog with a Spark driver of its own, and on a local file system two "
        "drivers' commits are not atomic: let members share one Spark Connect server (spark.master = 'sc://...', or "
        "spark.share = true for the workers of one service), or use a REST or JDBC catalog",
    )
