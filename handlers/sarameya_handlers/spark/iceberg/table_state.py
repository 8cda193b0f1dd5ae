"""Properties and snapshots of an Iceberg table at one moment. Each read fetches only new snapshots.

Known snapshots stay in memory: they do not change, and remain true after they have expired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from sarameya import HandlerError
from sarameya_handlers.landing.errors import ForgottenChainError
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.iceberg.catalog import TableName
from sarameya_handlers.spark.iceberg.history import COLUMNS, History
from sarameya_handlers.spark.iceberg.marks import ChainMark, chain_marks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANY_SNAPSHOTS = 2_000
"""Snapshots of a table above which a service warns."""
_COUNT_INTERVAL = 500
"""Number of newly known snapshots after which the table's snapshots are counted again: some may have expired."""
_REREAD_AFTER = 5000
"""Number of snapshots added in memory since all were read, after which all are read again."""


@attrs.frozen(slots=True)
class TableState:
    """A table's properties and history at one moment."""

    properties: Mapping[str, str]
    history: History

    @cached_property
    def marks(self) -> dict[ChainKey, list[ChainMark]]:
        """Marks of each chain in the properties. They count only if the history no longer has a link of the chain."""
        return chain_marks(self.properties)

    def heads(self, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        """Return the last link of each chain that has one. Raises ForgottenChainError, BrokenChainError."""
        keys = list(keys)
        newest = self.history.newest_of(keys)
        heads: dict[ChainKey, Link] = {}
        for key in keys:
            if (appended := newest.get(key)) is not None:
                if appended.link is None:
                    raise _forgotten_chain(key)
                heads[key] = appended.link
            elif (last := self._head_by_marks(key)) is not None:
                heads[key] = last
        return heads

    def number(self, key: ChainKey) -> int:
        """Return the number of the chain's last link; 0 for none. Raises ForgottenChainError, BrokenChainError."""
        if (appended := self.history.newest_of([key]).get(key)) is not None:
            return appended.number
        last = self._head_by_marks(key)
        return last.number if last else 0

    def keys(self) -> list[ChainKey]:
        """Return every chain that has a link."""
        return sorted({*self.marks, *self.history.keys()})

    def at(self, version: str) -> TableState:
        """Return the state as of an older snapshot.

        Raises:
            HandlerError: The table has no such snapshot.
        """
        if not version.isdecimal() or int(version) not in self.history.snapshots:
            raise HandlerError(
                f"the table has no snapshot {version!r}: `SELECT * FROM <table>.history` lists its snapshots"
            )
        return TableState({}, self.history.at(int(version)))

    def _head_by_marks(self, key: ChainKey) -> Link | None:
        """Return the head that the chain's marks record; None if the history is complete, or the chain has no mark."""
        if self.history.is_whole or key not in self.marks:
            return None
        if (head := self.marks[key][-1].head()) is None:
            raise _forgotten_chain(key)
        return head


def _forgotten_chain(key: ChainKey) -> ForgottenChainError:
    return ForgottenChainError(
        f"{key}: the snapshots with its last link have expired. Keep snapshots for longer than the sink may be down "
        "(history.expire.max-snapshot-age-ms, and no later older_than). To continue, land as another sink (name), with "
        "another group whose committed offsets are the ends of the rows"
    )


def exists(spark: SparkSession, name: TableName) -> bool:
    """Return whether the table exists."""
    from pyspark.errors import UnsupportedOperationException

    try:
        return spark.catalog.tableExists(name.sql)
    except UnsupportedOperationException:
        # There is no such table, so Spark searches for a view; a JDBC catalog of schema V0 does not support views.
        return False


def refresh(spark: SparkSession, name: TableName) -> None:
    """Make a caching catalog read the table again."""
    spark.sql(f"REFRESH TABLE {name.sql}")


class TableStateReader:
    """Reads the state of one table, and caches its snapshots between reads."""

    def __init__(self, name: TableName) -> None:
        self._name = name
        # Replaced, never changed. If a slower thread puts an older history here, the next read adds the difference.
        self._known: History | None = None
        self._full_count = 0
        """Number of snapshots when all were last read."""
        self._counted = 0
        """Number of known snapshots when those of the table were last counted."""
        self._growth = ""

    def growth(self, spark: SparkSession) -> str:
        """Return a warning with a remedy if the table had many snapshots at the last count; else empty."""
        known = len(self._known.snapshots) if self._known else 0
        if known >= max(MANY_SNAPSHOTS, self._counted + _COUNT_INTERVAL):
            self._counted = known
            self._growth = self._count(spark)
        return self._growth

    def _count(self, spark: SparkSession) -> str:
        # Some of the known snapshots may have expired.
        [(count,)] = spark.sql(f"SELECT count(*) FROM {self._name.metadata('snapshots')}").collect()
        if count < MANY_SNAPSHOTS:
            return ""
        return (
            f"it has {count:,} snapshots, and each start and commit reads and writes them all. Expire them regularly, "
            f"CALL {self._name.procedure('expire_snapshots')}(table => {self._name.in_catalog}), which keeps snapshots "
            "younger than the table property history.expire.max-snapshot-age-ms: 5 days by default; a day (86400000) "
            "is enough for most tables. Restart the service when you have changed it"
        )

    def read(self, spark: SparkSession, *, is_cached: bool, staged: Iterable[Link] = ()) -> TableState:
        """Read the table's state. It has main's snapshots and those of `staged` links, but perhaps no others.

        Args:
            spark: The session.
            is_cached: True if the catalog caches tables.
            staged: Links whose staged snapshots are wanted, if they still exist.

        Raises:
            LandingError: The snapshots changed while they were read.
        """
        if is_cached:
            refresh(spark, self._name)
        # First the id of main's snapshot, then the snapshots, so that they include it.
        properties = self.properties(spark)
        current = _snapshot_id(properties.get("current-snapshot-id"))
        known = self._known
        if known is None or current != known.current or any(known.staged(link) is None for link in staged):
            self._known = known = self._more(spark, known, current, staged)
        return TableState(properties, known)

    def properties(self, spark: SparkSession) -> dict[str, str]:
        return {row[0]: row[1] for row in spark.sql(f"SHOW TBLPROPERTIES {self._name.sql}").collect()}

    def _more(self, spark: SparkSession, known: History | None, current: int | None, staged: Iterable[Link]) -> History:
        if known and known.snapshots and len(known.snapshots) < self._full_count + _REREAD_AFTER:
            more = known.with_more(self._rows(spark, known.newest), current)
            # False if main was rolled back, or a writer's clock is far behind.
            if more.reaches(known.current) and all(more.staged(link) for link in staged):
                return more
        whole = History().with_more(self._rows(spark, 0), current)
        if current is not None and current not in whole.snapshots:
            raise LandingError(f"{self._name}: its snapshots have changed while they were read; retry")
        self._full_count = len(whole.snapshots)
        return whole

    def _rows(self, spark: SparkSession, since: int) -> Sequence[Sequence[Any]]:
        query = f"SELECT {', '.join(COLUMNS)} FROM {self._name.metadata('snapshots')}"
        return spark.sql(f"{query} WHERE committed_at >= timestamp_millis({since})").collect()


def _snapshot_id(text: str | None) -> int | None:
    """Parse a snapshot id; None for a new table, for which Spark returns "none"."""
    return int(text) if text and text.isdecimal() else None
