"""The table adapters that the suite runs against: a `Contender` each, which has everything that the suite knows of it.

Other processes (racers, members) receive a contender's name, and create the same table from it.
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

from sarameya_handlers import SparkOptions, StoreOptions
from sarameya_handlers.spark.engines.connect import new_session
from sarameya_handlers.spark.engines.engine import Engine, SparkEngine
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.named import table_named
from sarameya_handlers.spark.tables.table import Landing, Phase, Shape, Table
from tests.conformance.adoptions import AdoptedDelta
from tests.conformance.engines import ThreadEngine
from tests.conformance.results import DELTA, row
from tests.integration.lakes import lake_options
from tests.integration.object_stores.connector import s3_conf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PHASES = (Phase.STAGED, Phase.WRITTEN, Phase.LINKED, Phase.SETTLED, Phase.MARKED)
DELTA_PHASES = (Phase.STAGED, Phase.READY, Phase.LINKED, Phase.SETTLED, Phase.MARKED)


class Runs(StrEnum):
    """The engine of a contender's landings."""

    THREADS = "none"
    """Threads without Spark: the table adopts the staged files."""
    CLASSIC = "classic"
    """A SparkSession in each process."""
    CONNECT = "Connect"
    """A Spark Connect server, whose clients all processes are."""


class Cloud(StrEnum):
    """An object store. The value is the name of its fixture."""

    S3 = "gateway"
    AZURE = "azurite"


@attrs.frozen(slots=True)
class Place:
    """The directories and the server of one test, which can be passed to another process."""

    directory: Path
    """The test's directory."""
    server: str = ""
    """The address of the Connect server."""
    warehouse: Path = Path()
    """The directory of the tables in the Connect server's catalogs."""
    bucket: str = ""
    """URL of a bucket in an object store. The environment has how to reach it."""

    def to_arguments(self) -> list[str]:
        """Return the place as arguments of a command line."""
        return [str(self.directory), self.server, str(self.warehouse), self.bucket]

    @classmethod
    def from_arguments(cls, arguments: list[str]) -> Place:
        directory, server, warehouse, bucket = arguments
        return cls(Path(directory), server, Path(warehouse), bucket)

    @contextmanager
    def reader(self) -> Iterator[Any]:
        """Open a session of the Connect server, which can read the tables of all contenders."""
        session = new_session(self.server)
        try:
            yield session
        finally:
            session.stop()


def rows_by_spark(frame: DataFrame) -> DataFrame:
    """Select the columns that the suite checks: a transform that makes Spark write the rows."""
    return frame.selectExpr("topic", "partition", "offset", "value")


def rows_by_slow_spark(frame: DataFrame) -> DataFrame:
    """Select the same columns, at 50 ms a row: a test can interrupt the job."""
    return rows_by_spark(frame).where("reflect('java.lang.Thread', 'sleep', 50L) = 'null'")


class StagedRows:
    """A shape whose frames are Arrow tables of the staged records."""

    is_plain = True

    def frame(self, spark: Any, landing: Landing) -> Any:
        return self.frames(spark, [landing])[0]

    def frames(self, spark: Any, landings: Sequence[Landing]) -> list[Any]:
        return [
            pq.read_table(landing.staged.path, columns=["topic", "partition", "offset", "value"])
            for landing in landings
        ]


@attrs.frozen(slots=True, kw_only=True)
class Contender:
    """A table adapter with one engine."""

    name: str
    row: tuple[str, str]
    """The kind of table, and the place of its files, in docs/landing.md."""
    runs: Runs
    table: Callable[[Place], Table]
    """Creates the table for a place."""
    shape: Shape = attrs.field(factory=Shaping)
    races: int = 100
    """Number of links for which two processes race."""
    session_timeout: float = 6.0
    """Session timeout of members, in seconds, in tests that stop members for longer."""
    phases: tuple[Phase, ...] = PHASES
    """Phases that the table reports: a test can stop a landing exactly there."""
    needs_server: bool = False
    """True if a Connect server must run, for landing or for reading the table."""
    cloud: Cloud | None = None
    """The object store of the table; None for a local disk."""
    is_exhaustive: bool = False
    """True if only `make conformance` runs the suite with this contender."""
    is_audited: bool = True
    """True if `sarameya verify` and `sarameya sweep` support such tables."""
    options: Callable[[Place], SparkOptions] = lambda place: SparkOptions(master="local[1]")
    """Options of a classic Spark session."""

    def engine(self, place: Place) -> Engine:
        """Return an engine for a sink, or for landings without a sink."""
        if self.runs is Runs.THREADS:
            return ThreadEngine()
        if self.runs is Runs.CLASSIC:
            return SparkEngine(self.options(place))
        return SparkEngine(SparkOptions(master=place.server))

    @contextmanager
    def reading(self, place: Place) -> Iterator[Any]:
        """Open a session that reads the table in the test's process; None if reading needs no Spark."""
        if self.table(place).needs_spark:
            with place.reader() as session:
                yield session
        else:
            yield None

    @contextmanager
    def sessions(self, place: Place, count: int = 1) -> Iterator[list[Any]]:
        """Open `count` independent sessions for the length of the block; each is None without Spark.

        Classic sessions share one driver, which this process starts.
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


def _parquet_in_bucket(place: Place) -> Table:
    options = {"staging": place.directory / "staging", "store": StoreOptions(trusted=True)}
    return table_named(f"parquet:{place.bucket}/lake/table", options)


def _delta(place: Place) -> Table:
    return table_named(f"delta:{place.directory / 'table'}")


def _iceberg(place: Place) -> Table:
    # All tests share the catalog, so the name depends on the test's directory.
    return table_named(f"iceberg:ice.t{hashlib.sha256(str(place.directory).encode()).hexdigest()[:12]}.orders")


def _adopted(place: Place) -> Table:
    return AdoptedDelta(place.directory / "table")


def _adopted_in_bucket(place: Place) -> Table:
    return AdoptedDelta(f"{place.bucket}/lake/table", place.directory / "staging")


def _ledger(place: Place) -> Table:
    # A late import: the many members and racers of other tables need no SQLAlchemy.
    from tests.conformance.ledgers import LedgerTable

    return LedgerTable(place.directory / "table")


# Classic Spark starts a JVM for each member, which takes long. So tests with members only kill such members, at one
# phase; tests without members also run with classic Spark (`every`). Commits of several drivers are left to the tests
# of the adapters.
CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender(
            name="parquet",
            row=("Parquet", "local disk"),
            runs=Runs.THREADS,
            table=_parquet,
            races=1000,
            session_timeout=2.0,
        ),
        Contender(
            name="parquet-s3",
            row=("Parquet", "S3 gateway"),
            runs=Runs.THREADS,
            table=_parquet_in_bucket,
            races=1000,
            session_timeout=2.0,
            cloud=Cloud.S3,
        ),
        Contender(
            name="parquet-azure",
            row=("Parquet", "Azure emulator"),
            runs=Runs.THREADS,
            table=_parquet_in_bucket,
            races=300,
            session_timeout=2.0,
            cloud=Cloud.AZURE,
            is_exhaustive=True,
        ),
        Contender(
            name="ledger",
            row=("callback with a ledger", "SQLite"),
            runs=Runs.THREADS,
            table=_ledger,
            shape=StagedRows(),
            session_timeout=2.0,
            phases=tuple(phase for phase in PHASES if phase is not Phase.WRITTEN),
            is_audited=False,
        ),
        Contender(
            name="delta-adopted",
            row=(DELTA, "local disk"),
            runs=Runs.THREADS,
            table=_adopted,
            races=300,
            session_timeout=2.0,
            phases=DELTA_PHASES,
        ),
        Contender(
            name="delta-adopted-s3",
            row=(DELTA, "S3 gateway"),
            runs=Runs.THREADS,
            table=_adopted_in_bucket,
            races=300,
            session_timeout=2.0,
            phases=DELTA_PHASES,
            cloud=Cloud.S3,
        ),
        Contender(
            name="parquet-classic",
            row=("Parquet", "local disk"),
            runs=Runs.CLASSIC,
            table=_parquet,
            shape=Shaping(transform=rows_by_spark),
            phases=(Phase.WRITTEN,),
        ),
        Contender(
            name="parquet-s3-classic",
            row=("Parquet", "S3 gateway"),
            runs=Runs.CLASSIC,
            table=_parquet_in_bucket,
            shape=Shaping(transform=rows_by_spark),
            phases=(Phase.WRITTEN,),
            cloud=Cloud.S3,
            is_exhaustive=True,
            options=lambda place: SparkOptions(master="local[1]", conf=s3_conf()),
        ),
        Contender(
            name="delta",
            row=("Delta, Spark commits", "local disk"),
            runs=Runs.CONNECT,
            table=_delta,
            phases=DELTA_PHASES,
            needs_server=True,
        ),
        Contender(
            name="iceberg",
            row=("Iceberg, catalog of files", "local disk"),
            runs=Runs.CONNECT,
            table=_iceberg,
            needs_server=True,
        ),
        Contender(
            name="iceberg-rest-s3",
            row=("Iceberg, REST catalog", "S3 gateway"),
            runs=Runs.CONNECT,
            table=_iceberg,
            needs_server=True,
            cloud=Cloud.S3,
            is_exhaustive=True,
        ),
        Contender(
            name="delta-classic",
            row=("Delta, Spark commits", "local disk"),
            runs=Runs.CLASSIC,
            table=_delta,
            shape=Shaping(transform=rows_by_spark),
            phases=(Phase.WRITTEN,),
            needs_server=True,
            options=lambda place: lake_options(place.warehouse, master="local[1]"),
        ),
        Contender(
            name="iceberg-classic",
            row=("Iceberg, catalog of files", "local disk"),
            runs=Runs.CLASSIC,
            table=_iceberg,
            phases=(Phase.WRITTEN,),
            needs_server=True,
            options=lambda place: lake_options(place.warehouse, master="local[1]"),
        ),
    )
}


def each(*names: str, exhaustive: Sequence[str] = ()) -> pytest.MarkDecorator:
    """Run a test with these contenders instead of the default, `shared()`.

    Args:
        names: The contenders.
        exhaustive: Those of them that only `make conformance` runs.
    """
    return pytest.mark.parametrize(
        "contender", [_parameter(CONTENDERS[name], exhaustive=name in exhaustive) for name in names]
    )


def shared() -> list[ParameterSet]:
    """Return all contenders except for classic Spark."""
    return [_parameter(contender) for contender in CONTENDERS.values() if contender.runs is not Runs.CLASSIC]


def every() -> pytest.MarkDecorator:
    """Run a test with all contenders, classic Spark included: for tests that land in their own process."""
    return each(*CONTENDERS)


def _parameter(contender: Contender, *, exhaustive: bool = False) -> ParameterSet:
    # A lake format with classic Spark takes longest, and differs least from the same with Spark Connect.
    is_classic_lake = contender.runs is Runs.CLASSIC and contender.needs_server
    marks = [row(*contender.row, contender.runs)]
    if exhaustive or is_classic_lake or contender.is_exhaustive:
        marks.append(pytest.mark.exhaustive)
    if contender.runs is not Runs.THREADS or contender.cloud is not None:
        marks.append(pytest.mark.integration)
    if contender.runs is Runs.CLASSIC:
        # pyspark does not close the sockets on which it receives rows: the garbage collector does.
        marks += [pytest.mark.cold, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
    return pytest.param(contender, id=contender.name, marks=marks)
