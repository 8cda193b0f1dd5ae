"""The interface between a sink and its table: links are appended to a `Table` together with their rows.

The sink collects and stages records, numbers links, and marks offsets. A table makes each append a compare-and-swap, in
its own way. After `land` has returned or raised, the sink reads `links`, and only these decide the outcome.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any, Protocol, Self

import attrs

from sarameya import ConfigError, HandlerError, StoreUsed
from sarameya.option_kinds import as_tuple, boolean, count
from sarameya_handlers.landing.directory.data_files import Unpublished
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.tables.evaluation import Evaluate, compute_all
from sarameya_handlers.spark.tables.row_count import RowCount

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from sarameya_handlers.spark.tables.staging import StagedFile, Staging


class Phase(StrEnum):
    """Progress of an attempt. `on_phase` is called when a phase is over, in the thread that lands."""

    STAGED = "staged"
    """The records are in a file that Spark can read; the table does not have them yet."""
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
    """A link to append, and its records; None for a link without records."""

    link: Link
    records: pa.Table | None
    is_alone: bool = False
    """True if the link must not share a job: a shared job has failed, perhaps because of another partition."""


@attrs.frozen(slots=True, kw_only=True)
class Landing:
    """An attempt to append a link and its rows to a table."""

    link: Link
    staged: StagedFile | None
    """The link's records, with the columns `KAFKA_COLUMNS`; None for a link without records."""
    records: int = 0
    """Number of records in the file. A transform may return more or fewer rows."""
    reads: list[RowCount] = attrs.field(factory=list, eq=False, repr=False)
    """Counts of the records that Spark reads from the file, one for each frame that reads it."""

    def __str__(self) -> str:
        return str(self.link)


Checkpoint = Callable[[Phase, Sequence[Landing]], None]
"""Function that is called with a phase and the attempts that reached it. Raises if the attempts were cancelled."""


class Shape(Protocol):
    """Conversion of staged records to rows of a table: decoding, a transform."""

    @property
    def is_plain(self) -> bool:
        """True if rows are the unchanged records. Then a table may use the staged file as its own."""

    def frame(self, spark: SparkSession, landing: Landing) -> DataFrame:
        """Return the rows of one attempt that has records. They never mix with those of other partitions."""

    def frames(self, spark: SparkSession, landings: Sequence[Landing]) -> Sequence[DataFrame]:
        """Return the rows of each attempt. Frames of one topic have the same columns."""


def _check_columns(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, tuple) or not all(isinstance(column, str) and column for column in value):
        raise ConfigError(attribute.name, value, "must be a list of columns")


@attrs.frozen(slots=True, kw_only=True)
class Layout:
    """Partitioning and schema evolution of a table."""

    partition_by: tuple[str, ...] = attrs.field(default=(), converter=as_tuple, validator=_check_columns)
    """Partition columns. An existing table must be partitioned by them."""
    max_partitions: int = attrs.field(default=100, validator=count)
    """Maximum number of table partitions with rows of one batch. More raise LandingError, to prevent tiny files."""
    evolve_schema: bool = attrs.field(default=False, validator=boolean)
    """True to add columns that the table lacks. Otherwise such columns raise LandingError."""


@attrs.frozen(slots=True, kw_only=True)
class Leftover:
    """A file, directory or snapshot of the table that no link names and no reader sees."""

    name: str
    """Argument for `Table.remove`: a path, or another name that the table understands."""
    size_bytes: int
    changed: float
    """Time of the last change, in seconds since 1970."""
    what: str
    """Description: data of an attempt that lost, a staged file, ..."""
    others_may_take: float = 0.0
    """Seconds after the last change in which another program's job (an OPTIMIZE) may still commit it."""

    @classmethod
    def at(cls, path: Path, what: str, others_may_take: float = 0.0) -> Self | None:
        """Return the leftover at a path, including everything inside a directory; None if it does not exist."""
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


class KeptLeftoverError(HandlerError):
    """A leftover is not removed: the process that left it may still use it."""


class Table(ABC):
    """A table in which partitions land exactly once.

    Each table guarantees:

    - of all attempts to append link n of a chain, in all processes, at most one ever succeeds;
    - a link and its rows appear together, permanently, or not at all;
    - if `land` has appended a link, in any process, then `links` returns it.

    All methods block and are called in worker threads, several at a time. `spark` is a session that no other call uses
    meanwhile. A method must restore settings that it changes in the session.
    """

    landings_per_job: int = 1
    """Maximum number of attempts that one call of `land` can append with one Spark job. May change while the sink
    runs."""

    restate_after: float | None = None
    """Seconds after which an idle chain's head must be restated by an empty link, since the table forgets old links.
    None if it does not."""

    states_heads: bool = False
    """True if `rest` stores heads. Otherwise it is not called, which saves a Spark call."""

    growth: str = ""
    """Warning that the table's size slows starts or flushes, with the remedy; else empty. Updated whenever the table is
    read. A sink logs it once."""

    def take_requests(self) -> StoreUsed | None:
        """Return the requests of this process to the table's object store since the last call; None if there were none.

        Spark's requests are not among them.
        """
        return None

    remembers: bool = True
    """False if the table does not store its chains. Then they are known only from Kafka's commits (see `recall`), and
    records land at least once."""

    def adopts(self, shape: Shape) -> bool:
        """Return whether `land` uses the staged file as a file of the table. The sink then compresses it like one."""
        return False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name as users write it: `parquet:/data/orders`, `delta:/data/orders`, `iceberg:lake.db.orders`."""

    @property
    @abstractmethod
    def staging(self) -> Staging:
        """Place of staged files. Ready once the table is open."""

    def takes_one_driver(self, settings: Mapping[str, str]) -> bool:
        """Return whether only one Spark driver may land in the table, according to its name and Spark's settings."""
        return False

    def prepare(self) -> None:
        """Make those checks that are quick and need no Spark, before Spark starts. `open` does the rest, in a thread.

        Raises:
            HandlerError: Records cannot land in the table.
            LandingError: Records cannot land in it now, which may pass.
        """

    @abstractmethod
    def open(self, spark: SparkSession) -> None:
        """Prepare the table before anything is consumed.

        Raises:
            HandlerError: Records cannot land in the table, or not exactly once. The text has the reason and the remedy.
        """

    @abstractmethod
    def heads(self, spark: SparkSession, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        """Return the last link of each of these chains that has one. Raises ChainError if it cannot be determined."""

    @abstractmethod
    def links(self, spark: SparkSession, key: ChainKey, since: int) -> Sequence[Link]:
        """Return the links of this chain from number `since` on, in order.

        `rows` and `size_bytes` are the table's own counts. The oldest links are missing if the table has forgotten
        them. Raises BrokenChainError.
        """

    @abstractmethod
    def land(self, spark: SparkSession, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        """Try to append these attempts, each to another chain.

        Each succeeds or fails by itself. Neither a return nor an exception shows which of them were appended.

        Args:
            spark: The session.
            landings: The attempts, at most `landings_per_job`.
            shape: Converts records to rows.
            checkpoint: Must be called at the phases that the table can report.
        """

    def evaluator(self, spark: SparkSession) -> Evaluate:
        """Return a function that checks whether rows could be written to the table in its current state.

        The function writes nothing. It raises an error if a row cannot be computed, or violates a requirement.
        """
        return compute_all

    def recall(self, head: Link) -> None:
        """Keep the last link of a chain, which Kafka's commit records. `links` returns it from then on.

        Called before the chain's next link lands, if `remembers` is false.
        """

    def rest(self, spark: SparkSession, heads: Iterable[Link]) -> None:
        """Store the heads of chains whose partitions are revoked, so that they never expire.

        Called if `states_heads` is true, but not for members that died, nor if a rebalance leaves no time: until the
        links themselves expire, they are enough.
        """

    # -- for the audit, also of a table that was not opened -------------------------------------------

    needs_spark: bool = True
    """True if the table's methods need a SparkSession. If False, `spark` may be None, except in `open`, in `read`, and
    in `land` for links with records; and `batches` returns the rows."""

    forgets: bool = False
    """True if the oldest links of a chain may be missing from `links` although nothing is wrong."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the existing ones of these columns for all rows that a reader might see. Needs no Spark."""
        raise NotImplementedError

    def driver_lock(self, spark: SparkSession) -> Path | None:
        """Return the file of the lease (lease.py), if only one driver may commit and `spark` has a driver of its own.

        None if any number of drivers may commit, or `spark` is Spark Connect's.
        """
        return None

    def unpublished(self, spark: SparkSession) -> Sequence[Unpublished]:
        """Return links that plain readers may miss, because their owner died before it had published them."""
        return ()

    def recover(self, spark: SparkSession) -> None:
        """Publish the links of `unpublished`. Members may land meanwhile. Raises HandlerError, LandingError."""

    def open_unstaged(self, spark: SparkSession) -> None:
        """Prepare the table like `open`, but without staging: for reads, and for links without records."""
        self.open(spark)

    @abstractmethod
    def keys(self, spark: SparkSession) -> Sequence[ChainKey]:
        """Return every chain in the table."""

    def all_links(self, spark: SparkSession, keys: Iterable[ChainKey]) -> Mapping[ChainKey, Sequence[Link]]:
        """Return the links of all these chains from number 1 on, as `links` does, in one read if the table can."""
        return {key: self.links(spark, key, 1) for key in keys}

    @abstractmethod
    def read(self, spark: SparkSession, version: str | None = None) -> DataFrame:
        """Return the table's current rows, or those of an older version.

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
        """Return files and snapshots of lost or unfinished attempts. Attempts that still run are included."""

    @abstractmethod
    def remove(self, spark: SparkSession, leftover: Leftover) -> None:
        """Remove one of the `leftovers`. Does nothing if it was removed already. Raises KeptLeftoverError."""
