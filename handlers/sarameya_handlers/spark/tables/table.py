"""The interface between a sink and its table: links are appended to a `Table` together with their rows.

The sink collects, stages, numbers and marks. A table turns each append into a compare-and-swap of its own kind.
Whatever `land` returns or raises, the sink reads `links` afterwards, and only they decide the outcome.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Protocol, Self

import attrs

from sarameya_handlers.landing.directory.data_files import Unpublished
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.tables.evaluation import Evaluate, compute_all
from sarameya_handlers.spark.tables.row_count import RowCount

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class Phase(StrEnum):
    """Progress of an attempt. Observers are notified of a phase when it is over, in the thread that lands."""

    STAGED = "staged"
    """The records are in a file that Spark can read; the table has none of them."""
    READY = "ready"
    """The table was read; the next step is the append itself. Not every table reports this phase."""
    WRITTEN = "written"
    """The rows are in the table's files, but no link names them, so no reader sees them. Not every table reports it."""
    LINKED = "linked"
    """The table reports the link as appended. Only a read of the table shows whether it was, and by which owner."""
    SETTLED = "settled"
    """The table has been read back; the link's owner is known."""
    MARKED = "marked"
    """The partition is marked up to the link's end; Kafka's commit follows."""


@attrs.frozen(slots=True, eq=False)
class PendingLink:
    """A link to append, and its records; None for a link without any."""

    link: Link
    records: pa.Table | None
    is_alone: bool = False
    """True if it must not share a job: the partition with which it shared one may have made that fail."""


@attrs.frozen(slots=True, kw_only=True)
class Landing:
    """An attempt to append a link and its rows to a table."""

    link: Link
    staged: Path | None
    """The link's records in a Parquet file with the columns `KAFKA_COLUMNS`; None for a link without records."""
    records: int = 0
    """Number of records in the file. A transform may make more or fewer rows of them."""
    reads: list[RowCount] = attrs.field(factory=list, eq=False, repr=False)
    """Counts of the records that Spark reads from the file, one for each frame made of it."""

    def __str__(self) -> str:
        return str(self.link)


Checkpoint = Callable[[Phase, Sequence[Landing]], None]
"""Called with a phase and the attempts that reached it. An exception means that they are no longer wanted."""


class Shape(Protocol):
    """Conversion of staged records into rows of a table: decoding, a transform."""

    @property
    def is_plain(self) -> bool:
        """True if rows are the records as staged, so that a table may take over the staged file."""

    def frame(self, spark: SparkSession, landing: Landing) -> DataFrame:
        """Return the rows of one attempt that has records. They never mix with those of other partitions."""

    def frames(self, spark: SparkSession, landings: Sequence[Landing]) -> Sequence[DataFrame]:
        """Return the rows of several attempts. Those of one topic have the same columns."""


@attrs.frozen(slots=True, kw_only=True)
class Layout:
    """Layout of a table's rows in files, as far as the sink decides it."""

    partition_by: tuple[str, ...] = ()
    """Partition columns. An existing table must be partitioned by them."""
    max_partitions: int = 100
    """Most table partitions that one batch may touch. More raise LandingError, to prevent tiny files."""
    evolve_schema: bool = False
    """True to add columns that the table lacks; otherwise they raise LandingError."""


@attrs.frozen(slots=True, kw_only=True)
class Leftover:
    """Something in the table's directory or history that no link names and no reader sees."""

    name: str
    """Argument for `Table.remove`: a path, or another name that the table understands."""
    size_bytes: int
    changed: float
    """Time of the last change, in seconds since 1970."""
    what: str
    """Description: data of an attempt that lost, a staged file, ..."""
    others_may_take: float = 0.0
    """Seconds for which another program's job (an OPTIMIZE) may still commit it. None of our links prevents that."""

    @classmethod
    def at(cls, path: Path, what: str, others_may_take: float = 0.0) -> Self | None:
        """Return the leftover at a path, with everything inside a directory; None if it is gone."""
        try:
            inside = [file.stat() for file in (path, *path.rglob("*"))]
        except FileNotFoundError:
            return None
        return cls(
            name=str(path),
            size_bytes=sum(status.st_size for status in inside if not S_ISDIR(status.st_mode)),
            changed=max(status.st_mtime for status in inside),
            what=what,
            others_may_take=others_may_take,
        )


class Table(ABC):
    """A table in which partitions land exactly once.

    Each table guarantees:

    - of all attempts to append link n of a chain, by whatever process, at most one ever succeeds;
    - a link and its rows appear together, permanently, or not at all;
    - `links` returns every link whose `land` has returned, wherever it was called.

    All methods block and are called in worker threads, several at a time. `spark` is a session that no other call uses
    meanwhile. Settings changed in it must be restored.
    """

    landings_per_job: int = 1
    """Most attempts that one call of `land` can append with one Spark job. May change while the sink runs."""

    restate_after: float | None = None
    """Seconds after which an idle chain's head must be rewritten by an empty link, because the table forgets."""

    states_heads: bool = False
    """True if `rest` writes anything. If not, it is not called, which saves a moment of Spark's time."""

    growth: str = ""
    """Reason why the table's growth slows starts or flushes, and the remedy; empty if there is none. Updated whenever
    the table is read. A sink warns of it once."""

    remembers: bool = True
    """False if the table does not know its own chains. Then only Kafka's commits do (see `recall`), and records land at
    least once."""

    def adopts(self, shape: Shape) -> bool:
        """Return whether `land` takes over the staged file itself, which is then compressed like a table's file."""
        return False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name as users write it: `parquet:/data/orders`, `delta:/data/orders`, `iceberg:lake.db.orders`."""

    @property
    @abstractmethod
    def staging(self) -> Path:
        """A directory for records on their way into Spark. Exists once the table is open.

        All of Spark's workers can read it; readers of the table never see it.
        """

    def takes_one_driver(self, settings: Mapping[str, str]) -> bool:
        """Return whether only one Spark driver may land in it, as far as its name and Spark's settings show."""
        return False

    def prepare(self) -> None:
        """Check before Spark starts whatever is quick and needs no Spark. `open` does the rest, in a thread.

        Raises:
            HandlerError: The table cannot be landed in.
            LandingError: It cannot be landed in now; this may pass.
        """

    @abstractmethod
    def open(self, spark: SparkSession) -> None:
        """Prepare the table before anything is consumed.

        Raises:
            HandlerError: It cannot be landed in, or not exactly once. The error says why, and what to do.
        """

    @abstractmethod
    def heads(self, spark: SparkSession, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        """Return the last link of each of these chains that has one. Raises ChainError if it cannot be proved."""

    @abstractmethod
    def links(self, spark: SparkSession, key: ChainKey, since: int) -> Sequence[Link]:
        """Return the links of this chain from number `since` on, in order.

        `rows` and `size_bytes` are as the table has them. The oldest ones are omitted if the table has forgotten them.
        Raises BrokenChainError.
        """

    @abstractmethod
    def land(self, spark: SparkSession, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        """Try to append these attempts, at most `landings_per_job`, each to another chain.

        Each succeeds or fails by itself. Neither a return nor an exception says which of them were appended.

        Args:
            spark: The session.
            landings: The attempts.
            shape: Makes rows of records.
            checkpoint: Must be called at the phases that the table can report.
        """

    def evaluator(self, spark: SparkSession) -> Evaluate:
        """Return a function that checks whether rows could be written to the table as it is now.

        It writes nothing. It raises whatever prevents a row from being computed, and an error for a row that violates a
        requirement.
        """
        return compute_all

    def recall(self, head: Link) -> None:
        """Remember the last link of a chain, as Kafka's commit has it. `links` returns it from then on.

        Called before the chain's next link lands, if the table does not remember its chains.
        """

    def rest(self, spark: SparkSession, heads: Iterable[Link]) -> None:
        """Store the heads of chains whose owner gives up their partitions in order, so that they never expire.

        Called if the table `states_heads`. Not called for members that died, nor if a rebalance leaves no time for it:
        until they expire, the links themselves are enough.
        """

    # -- for the audit, also of a table that was not opened -------------------------------------------

    needs_spark: bool = True
    """True if the table's methods need a SparkSession. If False, `spark` may be None, except in `open`, in `read`, and
    in `land` for links with records; and `batches` returns the rows."""

    forgets: bool = False
    """True if the oldest links of a chain may be missing from `links` although nothing is wrong."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns, as far as they exist, of all rows that a reader might see. Needs no Spark."""
        raise NotImplementedError

    def driver_lock(self, spark: SparkSession) -> Path | None:
        """Return the file of the lease (lease.py) if two drivers' commits could be lost and `spark` has its own driver.

        None if any number of drivers may commit.
        """
        return None

    def unpublished(self, spark: SparkSession) -> Sequence[Unpublished]:
        """Return links that plain readers may miss, because their owner died before it had published them."""
        return ()

    def recover(self, spark: SparkSession) -> None:
        """Publish what `unpublished` returns. Members may continue to land. Raises HandlerError, LandingError."""

    def open_unstaged(self, spark: SparkSession) -> None:
        """Prepare the table like `open`, but only for links without records: nothing has to be staged."""
        self.open(spark)

    @abstractmethod
    def keys(self, spark: SparkSession) -> Sequence[ChainKey]:
        """Return every chain in the table."""

    def all_links(self, spark: SparkSession, keys: Iterable[ChainKey]) -> Mapping[ChainKey, Sequence[Link]]:
        """Return the links of all these chains from number 1 on, as `links` does, in one read if the table can."""
        return {key: self.links(spark, key, 1) for key in keys}

    @abstractmethod
    def read(self, spark: SparkSession, version: str | None = None) -> DataFrame:
        """Return the rows that links have brought and nobody has deleted.

        Args:
            spark: The session.
            version: An older version of the table, if it keeps versions.

        Raises:
            HandlerError: There is no such version.
        """

    @abstractmethod
    def heads_at(self, spark: SparkSession, version: str) -> dict[ChainKey, Link]:
        """Return every chain's last link as of an older version. Raises HandlerError if the table keeps no versions."""

    @abstractmethod
    def leftovers(self, spark: SparkSession) -> Sequence[Leftover]:
        """Return what lost or unfinished attempts left behind, and what running ones are writing."""

    @abstractmethod
    def remove(self, spark: SparkSession, leftover: Leftover) -> None:
        """Remove one of the `leftovers`. Does nothing if it is gone already."""
