"""The adapters that the suite is run against: a record for each, and nothing that knows more of one than is in it.

A contender is told by its name, so that other processes (racers, members) make the same table of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow.parquet as pq
import pytest
from _pytest.mark.structures import ParameterSet

from sarameya_handlers import SparkOptions
from sarameya_handlers.spark.engines.connect import new_session
from sarameya_handlers.spark.engines.engine import Engine, SparkEngine
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.named import table_named
from sarameya_handlers.spark.tables.table import Landing, Phase, Shape, Table
from tests.conformance.adoptions import AdoptedDelta
from tests.conformance.engines import ThreadEngine
from tests.integration.lakes import lake_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOLD = (Phase.STAGED, Phase.WRITTEN, Phase.LINKED, Phase.SETTLED, Phase.MARKED)
TOLD_BY_DELTA = (Phase.STAGED, Phase.READY, Phase.LINKED, Phase.SETTLED, Phase.MARKED)


class Runs(StrEnum):
    """The engine of a contender's landings."""

    THREADS = "threads"
    """Nothing but Python: the table takes over what was staged."""
    CLASSIC = "classic"
    """A SparkSession in each process."""
    CONNECT = "connect"
    """One Spark Connect server, of which each process is a client."""


@attrs.frozen(slots=True)
class Place:
    """The place in which a contender lands in one test; plain enough to be passed to another process."""

    directory: Path
    """The test's own."""
    server: str = ""
    """The Connect server's address."""
    warehouse: Path = Path()
    """The Connect server's, where its catalogs keep their tables."""

    def to_words(self) -> list[str]:
        return [str(self.directory), self.server, str(self.warehouse)]

    @classmethod
    def from_words(cls, words: list[str]) -> Place:
        directory, server, warehouse = words
        return cls(Path(directory), server, Path(warehouse))

    @contextmanager
    def reader(self) -> Iterator[Any]:
        """A session of the Connect server, which reads whatever anybody has landed."""
        session = new_session(self.server)
        try:
            yield session
        finally:
            session.stop()


def rows_by_spark(frame: DataFrame) -> DataFrame:
    """A transform that changes nothing of what the suite looks at, and has Spark write the rows."""
    return frame.selectExpr("topic", "partition", "offset", "value")


def rows_by_slow_spark(frame: DataFrame) -> DataFrame:
    """The same, a twentieth of a second for each row: long enough for what is to happen in the middle of it."""
    return rows_by_spark(frame).where("reflect('java.lang.Thread', 'sleep', 50L) = 'null'")


class StagedRows:
    """A shape whose frames are the staged records, as Arrow has them."""

    is_plain = True

    def frame(self, spark: Any, landing: Landing) -> Any:
        return self.frames(spark, [landing])[0]

    def frames(self, spark: Any, landings: Sequence[Landing]) -> list[Any]:
        return [
            pq.read_table(landing.staged, columns=["topic", "partition", "offset", "value"]) for landing in landings
        ]


@attrs.frozen(slots=True, kw_only=True)
class Contender:
    """An adapter in one way of running it.

    `table` makes it, for its place. `told`: the phases at which its landings can be stopped exactly by what the table
    tells. `races`: for how many links two processes race. `needs_server`: whether there is to be a Connect server; it
    reads the table, too, where nothing else does.
    """

    name: str
    runs: Runs
    table: Callable[[Place], Table]
    shape: Shape = attrs.field(factory=Shaping)
    races: int = 100
    session_timeout: float = 6.0
    """Seconds, of its members where they are to be stopped for longer."""
    told: tuple[Phase, ...] = TOLD
    needs_server: bool = False
    is_audited: bool = True
    """Whether `sarameya verify` and `sarameya sweep` know such tables."""
    options: Callable[[Place], SparkOptions] = lambda place: SparkOptions(master="local[1]")
    """Of a classic session."""

    def engine(self, place: Place) -> Engine:
        """Return an engine for a sink, or for landings without one."""
        if self.runs is Runs.THREADS:
            return ThreadEngine()
        if self.runs is Runs.CLASSIC:
            return SparkEngine(self.options(place))
        return SparkEngine(SparkOptions(master=place.server))

    @contextmanager
    def reading(self, place: Place) -> Iterator[Any]:
        """A session for looking into the table from the test's process; None where that needs no Spark."""
        if self.table(place).needs_spark:
            with place.reader() as session:
                yield session
        else:
            yield None

    @contextmanager
    def sessions(self, place: Place, count: int = 1) -> Iterator[list[Any]]:
        """Yield `count` independent sessions for the length of the block; None where there is no Spark.

        Classic ones belong to one driver, which this process then has.
        """
        with ExitStack() as stack:
            if self.runs is Runs.THREADS:
                yield [None] * count
            elif self.runs is Runs.CLASSIC:
                from sarameya_handlers.spark.engines.jvm import spark_jvm

                running = spark_jvm.start(self.options(place))
                stack.callback(running.stop)
                yield [running.session.newSession() for _ in range(count)]
            else:
                yield [stack.enter_context(place.reader()) for _ in range(count)]


def _parquet(place: Place) -> Table:
    return table_named(f"parquet:{place.directory / 'table'}")


def _delta(place: Place) -> Table:
    return table_named(f"delta:{place.directory / 'table'}")


def _iceberg(place: Place) -> Table:
    # A name of its own for each test, in the catalog that all share.
    return table_named(f"iceberg:ice.t{hashlib.sha256(str(place.directory).encode()).hexdigest()[:12]}.orders")


def _adopted(place: Place) -> Table:
    return AdoptedDelta(place.directory / "table")


def _ledger(place: Place) -> Table:
    # Here: members and racers of other tables, of which there are many, need no database.
    from tests.conformance.ledgers import LedgerTable

    return LedgerTable(place.directory / "table")


# Starting a JVM for each member takes long: members with classic Spark are killed only, and at one phase; what needs no
# members is run with them, too (`every`). Whether several drivers may commit is for the adapters' own tests.
CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender(name="parquet", runs=Runs.THREADS, table=_parquet, races=1000, session_timeout=2.0),
        Contender(
            name="ledger",
            runs=Runs.THREADS,
            table=_ledger,
            shape=StagedRows(),
            session_timeout=2.0,
            told=tuple(phase for phase in TOLD if phase is not Phase.WRITTEN),
            is_audited=False,
        ),
        Contender(
            name="delta-adopted",
            runs=Runs.THREADS,
            table=_adopted,
            races=300,
            session_timeout=2.0,
            told=TOLD_BY_DELTA,
        ),
        Contender(
            name="parquet-classic",
            runs=Runs.CLASSIC,
            table=_parquet,
            shape=Shaping(transform=rows_by_spark),
            told=(Phase.WRITTEN,),
        ),
        Contender(
            name="delta",
            runs=Runs.CONNECT,
            table=_delta,
            told=TOLD_BY_DELTA,
            needs_server=True,
        ),
        Contender(name="iceberg", runs=Runs.CONNECT, table=_iceberg, needs_server=True),
        Contender(
            name="delta-classic",
            runs=Runs.CLASSIC,
            table=_delta,
            shape=Shaping(transform=rows_by_spark),
            told=(Phase.WRITTEN,),
            needs_server=True,
            options=lambda place: lake_options(place.warehouse, master="local[1]"),
        ),
        Contender(
            name="iceberg-classic",
            runs=Runs.CLASSIC,
            table=_iceberg,
            told=(Phase.WRITTEN,),
            needs_server=True,
            options=lambda place: lake_options(place.warehouse, master="local[1]"),
        ),
    )
}


def each(*names: str) -> pytest.MarkDecorator:
    """Run a test with these contenders, instead of all but the classic ones."""
    return pytest.mark.parametrize("contender", [_parameter(CONTENDERS[name]) for name in names])


def shared() -> list[ParameterSet]:
    """All but the classic ones."""
    return [_parameter(one) for one in CONTENDERS.values() if one.runs is not Runs.CLASSIC]


def every() -> pytest.MarkDecorator:
    """Run a test with the classic contenders, too: for one without members, that lands in its own process."""
    return each(*CONTENDERS)


def _parameter(contender: Contender) -> ParameterSet:
    marks = [] if contender.runs is Runs.THREADS else [pytest.mark.integration]
    if contender.runs is Runs.CLASSIC:
        # pyspark leaves each socket that rows come over to the garbage collector.
        marks += [pytest.mark.cold, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
    return pytest.param(contender, id=contender.name, marks=marks)
