"""A table made of a callback and a ledger: one SQLite transaction writes a link and its rows.

The ledger is the one of `examples/ledger`. No Spark is needed, since the callback reads the staged file.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Column, Engine, Integer, LargeBinary, MetaData, NullPool, String, Table, create_engine, select

from examples.ledger import SqlLedger, links
from examples.ledger import tables as ledger_tables
from sarameya_handlers import ForeachBatch
from sarameya_handlers.landing.links import ChainKey, Link

_tables = MetaData()
_rows = Table(
    "landed",
    _tables,
    Column("topic", String(249)),
    Column("partition", Integer),
    Column("offset", Integer),
    Column("value", LargeBinary),
)


class LedgerTable(ForeachBatch):
    """A `ForeachBatch` table with a SQL ledger. `open` creates its directory."""

    needs_spark = False

    def __init__(self, directory: Path) -> None:
        self._file = directory / "landed.db"
        self._database = _database(self._file)
        self._sql_ledger = SqlLedger(self._database)
        super().__init__(self._add, staging=directory / "staging", ledger=self._sql_ledger)

    def open(self, spark: Any) -> None:
        self.staging.make()
        if not self._file.exists():
            _create(self._file)
        super().open(spark)

    def keys(self, spark: Any) -> Sequence[ChainKey]:
        with self._database.connect() as connection:
            found = connection.execute(select(links.c.sink, links.c.topic, links.c.partition).distinct())
            return sorted(ChainKey(*key) for key in found)

    def rows(self) -> list[tuple[str, int, int, bytes]]:
        with self._database.connect() as connection:
            return [
                (topic, partition, offset, value)
                for topic, partition, offset, value in connection.execute(select(_rows))
            ]

    def _add(self, frame: Any, batch: str, link: Link) -> None:
        with self._database.begin() as connection:
            connection.execute(_rows.insert(), frame.to_pylist())
            self._sql_ledger.record(connection, link)


def _database(path: Path) -> Engine:
    # Two landings may write at the same time: then one waits for SQLite's lock, for up to 30 s.
    return create_engine(f"sqlite:///{path}", connect_args={"timeout": 30.0})


def _create(path: Path) -> None:
    """Create a database with a write-ahead log, in which readers do not block writers.

    Each caller prepares a file of its own, and one of them links it to `path`. SQLite does not wait for a lock when it
    changes a file to a write-ahead log: if two callers did that in one file, one would fail with "database is locked".
    """
    with TemporaryDirectory(dir=path.parent) as directory:
        prepared = Path(directory, path.name)
        engine = create_engine(f"sqlite:///{prepared}", poolclass=NullPool)
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        for tables in (ledger_tables, _tables):
            tables.create_all(engine)
        with suppress(FileExistsError):
            path.hardlink_to(prepared)
