"""Orders in a SQL database, each counted exactly once.

A callback writes the sums of a batch and the batch's link in one transaction. One response of the database is lost, and
another member takes over half-way. No order is counted twice.

python examples/ledger.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    and_,
    create_engine,
    func,
    select,
)

from sarameya import Config, ConsumerGroup
from sarameya.embedded import EmbeddedCluster
from sarameya_handlers import ChainKey, ForeachBatch, Link, SparkOptions, SparkSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ORDERS = 1000

tables = MetaData()
links = Table(
    "sarameya_links",
    tables,
    Column("sink", String(200), primary_key=True),
    Column("topic", String(249), primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("link", Text, nullable=False),
)
totals = Table(
    "totals",
    tables,
    Column("batch", String(500), primary_key=True),
    Column("orders", Integer, nullable=False),
    Column("total", Integer, nullable=False),
)


class SqlLedger:
    """The links of all chains, in a table of the database that has their rows.

    If two owners write a link with the same number, the second one violates the primary key, and its whole transaction
    is rolled back.
    """

    def __init__(self, database: Engine) -> None:
        self._database = database

    def record(self, connection: Connection, link: Link) -> None:
        """Insert a link in this connection's transaction.

        Raises:
            IntegrityError: The chain has a link with this number.
        """
        key = {"sink": link.key.sink, "topic": link.key.topic, "partition": link.key.partition}
        connection.execute(links.insert().values(**key, number=link.number, link=link.to_json()))

    def heads(self, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        """Return the last link of each chain. Chains without links are omitted."""
        heads = {}
        with self._database.connect() as connection:
            for key in keys:
                newest = select(links.c.link).where(_is_of(key)).order_by(links.c.number.desc()).limit(1)
                if (text := connection.execute(newest).scalar()) is not None:
                    heads[key] = Link.from_json(text)
        return heads

    def links(self, key: ChainKey, since: int) -> list[Link]:
        """Return the chain's links from number `since` on, in order."""
        wanted = select(links.c.link).where(_is_of(key), links.c.number >= since).order_by(links.c.number)
        with self._database.connect() as connection:
            return [Link.from_json(text) for text in connection.execute(wanted).scalars()]

    def append(self, link: Link) -> None:
        """Insert a link without rows, in its own transaction."""
        with self._database.begin() as connection:
            self.record(connection, link)


def _is_of(key: ChainKey) -> ColumnElement[bool]:
    return and_(links.c.sink == key.sink, links.c.topic == key.topic, links.c.partition == key.partition)


class Totals:
    """The callback. Its second batch is committed, but the database's response is lost."""

    def __init__(self, database: Engine, ledger: SqlLedger) -> None:
        self._database = database
        self._ledger = ledger
        self._calls = 0

    def add(self, frame: DataFrame, batch: str, link: Link) -> None:
        ((orders, total),) = frame.selectExpr("count(*)", "sum(int(string(value)))").collect()
        with self._database.begin() as connection:
            connection.execute(totals.insert().values(batch=batch, orders=orders, total=total))
            self._ledger.record(connection, link)
        self._calls += 1
        if self._calls == 2:
            raise ConnectionError("the response was lost")


async def land(cluster: EmbeddedCluster, sink: SparkSink, until: int) -> None:
    """Run one member until the group has committed `until` orders."""
    config = Config(offset_initial="oldest", autocommit_interval=0.1)
    async with ConsumerGroup(cluster.bootstrap_servers, "orders", config) as group, trio.open_nursery() as nursery:
        nursery.start_soon(group.consume, ["orders"], sink)
        while _committed(cluster) < until:  # noqa: ASYNC110  the group has no event for this
            await trio.sleep(0.05)
        group.close_nowait()


def _committed(cluster: EmbeddedCluster) -> int:
    return sum(committed.offset for committed in cluster.committed("orders").values())


async def main(directory: Path) -> None:
    # Two flushes may write at once, and SQLite makes one of them wait.
    database = create_engine(f"sqlite:///{directory / 'orders.db'}", connect_args={"timeout": 30.0})
    tables.create_all(database)
    ledger = SqlLedger(database)
    table = ForeachBatch(Totals(database, ledger).add, staging=directory / "staging", ledger=ledger)
    async with (
        EmbeddedCluster(topics={"orders": 4}) as cluster,
        SparkSink(table, max_rows=100, max_age=1.0, spark=SparkOptions(master="local[2]")) as sink,
    ):
        for number in range(ORDERS):
            cluster.produce("orders", number % 4, value=b"%d" % number)
        await land(cluster, sink, until=ORDERS // 2)
        await land(cluster, sink, until=ORDERS)
    with database.connect() as connection:
        ((orders, total, batches),) = connection.execute(
            select(func.sum(totals.c.orders), func.sum(totals.c.total), func.count())
        )
        recorded = connection.execute(select(func.count()).select_from(links)).scalar()
    assert batches == recorded
    print(f"{orders} orders of {total} in all")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        trio.run(main, Path(temporary))
