"""Two clients of one Spark Connect server race to create a table, and to append a link.

Races between processes are in tests/conformance. This module covers how they start, and how Delta refuses the loser.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sarameya_handlers.landing.links import Link
from sarameya_handlers.spark.delta.table import DeltaTable
from tests.integration.connect_server import ConnectServer
from tests.integration.delta_stage import attempt, link
from tests.integration.lake_stage import KEY, OTHER, found, rows, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

TABLES = 4
LINKS = 6


@pytest.fixture
def clients(lake_server: ConnectServer) -> Iterator[list[SparkSession]]:
    with ExitStack() as stack:
        yield [stack.enter_context(lake_server.session()) for _ in range(2)]  # type: ignore[misc]


def at_once(*works: Callable[[], object]) -> list[Exception | None]:
    """Run functions at the same time; return the exception of each."""
    barrier = threading.Barrier(len(works))
    raised: list[Exception | None] = [None] * len(works)

    def run(which: int, work: Callable[[], object]) -> None:
        barrier.wait(60)
        try:
            work()
        except Exception as error:
            raised[which] = error

    threads = [threading.Thread(target=run, args=each) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    return raised


def race(clients: list[SparkSession], tables: list[DeltaTable], links: list[Link]) -> list[Exception | None]:
    """Let both clients read the table, then attempt their links at the same time."""
    for spark, table in zip(clients, tables, strict=True):
        table.heads(spark, [KEY, OTHER])
    return at_once(
        *(
            lambda spark=spark, table=table, one=one: attempt(spark, table, one)  # type: ignore[misc]
            for spark, table, one in zip(clients, tables, links, strict=True)
        )
    )


@pytest.mark.parametrize("named", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["path", "name"])
def test_concurrent_creation_has_one_first_link(clients: list[SparkSession], tmp_path: Path, named: bool) -> None:
    for number in range(TABLES):
        place = f"default.race{abs(hash(str(tmp_path)))}_{number}" if named else tmp_path / f"table{number}"
        tables = [DeltaTable(place, staging=tmp_path / f"staging{which}") for which in (0, 1)]
        for spark, table in zip(clients, tables, strict=True):
            table.open(spark)
        links = [link(1, 0, 5), link(1, 0, 7)]
        raised = race(clients, tables, links)
        ((_, winner),) = found(clients[0], tables[0]) or [(0, "")]
        assert winner in [one.attempt for one in links], raised
        assert found(clients[1], tables[1]) == [(1, winner)]
        assert rows(tables[0].read(clients[0])) == rows_of(next(one for one in links if one.attempt == winner))


def test_one_of_two_simultaneous_attempts_wins(clients: list[SparkSession], tmp_path: Path) -> None:
    """The loser gets no error or a concurrent-transaction error, which is no failure."""
    tables = [DeltaTable(tmp_path / "table") for _ in clients]
    for spark, table in zip(clients, tables, strict=True):
        table.open(spark)
    winners: list[Link] = []
    at = 0
    for number in range(1, LINKS + 1):
        links = [link(number, at, at + 3), link(number, at, at + 5)]
        assert race(clients, tables, links) == [None, None] or number == 1
        links_found = tables[0].links(clients[0], KEY, 1)
        assert len(links_found) == number
        winners.append(next(one for one in links if one.attempt == links_found[-1].attempt))
        at = winners[-1].to_offset
    assert [found(spark, table) for spark, table in zip(clients, tables, strict=True)] == [
        [(one.number, one.attempt) for one in winners]
    ] * 2
    assert rows(tables[0].read(clients[0])) == rows_of(*winners)


def test_two_chains_landing_at_once_do_not_interfere(clients: list[SparkSession], tmp_path: Path) -> None:
    tables = [DeltaTable(tmp_path / "table") for _ in clients]
    for spark, table in zip(clients, tables, strict=True):
        table.open(spark)
    attempt(clients[0], tables[0], link(1, 0, 1))
    attempt(clients[0], tables[0], link(1, 0, 1, key=OTHER))
    landed = []
    for number in range(2, LINKS):
        links = [link(number, number, number + 1), link(number, number, number + 1, key=OTHER)]
        assert race(clients, tables, links) == [None, None]
        landed.append([one.attempt for one in links])
    for which, key in enumerate((KEY, OTHER)):
        assert [one for _, one in found(clients[0], tables[0], key)][1:] == [each[which] for each in landed]
