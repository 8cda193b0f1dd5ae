"""Looking at an Iceberg table: its properties and its snapshots, of which only those are fetched that are news.

What was once seen in main's ancestry is kept in mind: it does not change, and what expires since is no less true.
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
from sarameya_handlers.spark.iceberg.marks import Mark, marks_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANY_SNAPSHOTS = 2_000
"""Snapshots of a table, above which a service warns."""
_COUNT_EACH = 500
"""Snapshots between two counts of those that the table still has."""
_FORGET_AT = 5000
"""Snapshots that may be kept in mind beyond those that the table had; then all are looked up anew."""


@attrs.frozen(slots=True)
class Look:
    """A table as it was when it was looked at."""

    properties: Mapping[str, str]
    history: History

    @cached_property
    def marks(self) -> dict[ChainKey, list[Mark]]:
        """What the properties say of chains. Histories forget, these do not; and they count only where history says
        nothing."""
        return marks_in(self.properties)

    def heads(self, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        """The last link of each of these chains that has begun. Raises ForgottenChainError, BrokenChainError."""
        keys = list(keys)
        newest = self.history.newest_of(keys)
        heads: dict[ChainKey, Link] = {}
        for key in keys:
            if (appended := newest.get(key)) is not None:
                if appended.link is None:
                    raise _forgotten(key)
                heads[key] = appended.link
            elif (last := self._stated(key)) is not None:
                heads[key] = last
        return heads

    def number(self, key: ChainKey) -> int:
        """That of the chain's last link; 0 if it has not begun. Raises ForgottenChainError, BrokenChainError."""
        if (appended := self.history.newest_of([key]).get(key)) is not None:
            return appended.number
        last = self._stated(key)
        return last.number if last else 0

    def keys(self) -> list[ChainKey]:
        """Every chain that has begun."""
        return sorted({*self.marks, *self.history.keys()})

    def at(self, version: str) -> Look:
        """As if the table stood at that snapshot. Raises HandlerError where it is none of the table's."""
        if not version.isdecimal() or int(version) not in self.history.snapshots:
            raise HandlerError(
                f"the table has no snapshot {version!r}: `SELECT * FROM <table>.history` has those it has"
            )
        return Look({}, self.history.at(int(version)))

    def _stated(self, key: ChainKey) -> Link | None:
        """What the chain's marks say of its end, where history reaches less far back than the chain."""
        if self.history.is_whole or key not in self.marks:
            return None
        if (head := self.marks[key][-1].head()) is None:
            raise _forgotten(key)
        return head


def _forgotten(key: ChainKey) -> ForgottenChainError:
    return ForgottenChainError(
        f"{key}: the snapshots that say where it ends have expired. Keep them for longer than the sink may be down "
        "(history.expire.max-snapshot-age-ms, and no older_than that is later). To go on, land as another sink, with "
        "another group whose offsets begin where the rows end"
    )


def exists(spark: SparkSession, name: TableName) -> bool:
    from pyspark.errors import UnsupportedOperationException

    try:
        return spark.catalog.tableExists(name.sql)
    except UnsupportedOperationException:
        # There is no such table, so Spark looks for a view; a JDBC catalog of schema V0 has none.
        return False


def refresh(spark: SparkSession, name: TableName) -> None:
    """Have a catalog look that goes on telling of what it once saw, unless it is asked to."""
    spark.sql(f"REFRESH TABLE {name.sql}")


class Looker:
    """Looks at one table, and remembers its snapshots from one time to the next."""

    def __init__(self, name: TableName) -> None:
        self._name = name
        # Replaced as a whole, by whichever thread has just looked: one that knows less is none the worse for it.
        self._known: History | None = None
        self._fully = 0
        self._counted = 0
        self._growth = ""

    def growth(self, spark: SparkSession) -> str:
        """Return what to run where the table has many snapshots; empty where it had not at the last count."""
        known = len(self._known.snapshots) if self._known else 0
        if known >= max(MANY_SNAPSHOTS, self._counted + _COUNT_EACH):
            self._counted = known
            self._growth = self._count(spark)
        return self._growth

    def _count(self, spark: SparkSession) -> str:
        # Of those that are known some may have expired.
        [(count,)] = spark.sql(f"SELECT count(*) FROM {self._name.metadata('snapshots')}").collect()
        if count < MANY_SNAPSHOTS:
            return ""
        return (
            f"it has {count:,} snapshots, and each start and commit reads and writes them all. Expire them regularly, "
            f"CALL {self._name.procedure('expire_snapshots')}(table => {self._name.in_catalog}), which leaves those "
            "younger than the table property history.expire.max-snapshot-age-ms: 5 days, if nobody has set it; a day "
            "(86400000) is enough for most. Start the service anew when you have changed it"
        )

    def look(self, spark: SparkSession, *, is_cached: bool, staged: Iterable[Link] = ()) -> Look:
        """The table as it is now; of what main does not lead to only what was `staged`, where it is still there.

        `is_cached`: the catalog goes on telling of what it once saw. Raises LandingError.
        """
        if is_cached:
            refresh(spark, self._name)
        # First where main stands, then what it stands on.
        properties = self.properties(spark)
        current = _snapshot_id(properties.get("current-snapshot-id"))
        known = self._known
        if known is None or current != known.current or any(known.staged(link) is None for link in staged):
            self._known = known = self._more(spark, known, current, staged)
        return Look(properties, known)

    def properties(self, spark: SparkSession) -> dict[str, str]:
        return {row[0]: row[1] for row in spark.sql(f"SHOW TBLPROPERTIES {self._name.sql}").collect()}

    def _more(self, spark: SparkSession, known: History | None, current: int | None, staged: Iterable[Link]) -> History:
        if known and known.snapshots and len(known.snapshots) < self._fully + _FORGET_AT:
            more = known.with_more(self._rows(spark, known.newest), current)
            # Not so where main was moved back, or somebody's clock is far behind.
            if more.reaches(known.current) and all(more.staged(link) for link in staged):
                return more
        whole = History().with_more(self._rows(spark, 0), current)
        if current is not None and current not in whole.snapshots:
            raise LandingError(f"{self._name}: its snapshots have changed while they were looked at; look again")
        self._fully = len(whole.snapshots)
        return whole

    def _rows(self, spark: SparkSession, since: int) -> Sequence[Sequence[Any]]:
        told = f"SELECT {', '.join(COLUMNS)} FROM {self._name.metadata('snapshots')}"
        return spark.sql(f"{told} WHERE committed_at >= timestamp_millis({since})").collect()


def _snapshot_id(told: str | None) -> int | None:
    """None for a table that is new, of which Spark says "none"."""
    return int(told) if told and told.isdecimal() else None
