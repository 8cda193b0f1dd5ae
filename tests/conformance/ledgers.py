"""A callback with a ledger as a table: rows and links in one SQLite database, in one transaction. The ledger is the
example's; there is no Spark, since the callback reads what was staged."""

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
    """`directory` is made when the table is opened."""

    needs_spark = False

    def __init__(self, directory: Path) -> None:
        self._file = directory / "landed.db"
        self._database = _database(self._file)
        self._sql_ledger = SqlLedger(self._database)
        super().__init__(self._add, staging=directory / "staging", ledger=self._sql_ledger)

    def open(self, spark: Any) -> None:
        self.staging.mkdir(parents=True, exist_ok=True)
        if not self._file.exists():
            _make(self._file)
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
    # Two landings may write at once, and SQLite lets one of them wait.
    return create_engine(f"sqlite:///{path}", connect_args={"timeout": 30.0})


def _make(path: Path) -> None:
    """Make a database whose readers hold up no writer; of several that do, one gives it its name.

    SQLite does not wait to change to a write-ahead log: of two that do so in one file, one is told that the database is
    locked, whatever its timeout.
    """
    with TemporaryDirectory(dir=path.parent) as directory:
        unnamed = Path(directory, path.name)
        engine = create_engine(f"sqlite:///{unnamed}", poolclass=NullPool)
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        for tables in (ledger_tables, _tables):
            tables.create_all(engine)
        with suppress(FileExistsError):
            path.hardlink_to(unnamed)
