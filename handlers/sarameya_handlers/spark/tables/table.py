"""The seam between a sink and where it lands: a `Table`, to which links are appended together with their rows.

The sink collects, stages, numbers and marks; a table makes of each link a compare-and-swap of its own kind. Whatever
`land` says, or does not live to say, `links` is asked afterwards, and what it has found counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Protocol, Self

import attrs

from sarameya_handlers.landing.data_files import Unpublished
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.tables.evaluating import Evaluate, to_nowhere
from sarameya_handlers.spark.tables.row_count import RowCount

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class Phase(StrEnum):
    """How far a landing has come. Who watches is told of each when it is over, in the thread that lands."""

    STAGED = "staged"
    """The records are a file that Spark can read; nothing of it is in the table."""
    READY = "ready"
    """The table was looked at, and the next step is the append itself. Not every table can tell."""
    WRITTEN = "written"
    """The rows are in files of the table's, but no link says so: nobody reads them. Not every table can tell."""
    LINKED = "linked"
    """The table says that the link has been appended; whether it was, and by whom, is not known before it is read."""
    SETTLED = "settled"
    """The table has been read back: it is known who has appended the link."""
    MARKED = "marked"
    """The partition is marked up to the link's end; Kafka's commit follows."""


@attrs.frozen(slots=True, kw_only=True)
class Landing:
    """One try to append a link and its rows to a table."""

    link: Link
    staged: Path | None
    """The link's records, a Parquet file with the columns of `KAFKA_COLUMNS`; None for a link that brings none."""
    records: int = 0
    """How many there are in it; a transform may make more or fewer rows of them."""
    reads: list[RowCount] = attrs.field(factory=list, eq=False, repr=False)
    """Counts of the records that Spark reads of the file, one for each frame that was made of it."""

    def __str__(self) -> str:
        return str(self.link)


Checkpoint = Callable[[Phase, Sequence[Landing]], None]
"""Told when these landings have come so far. Raises if they are no longer wanted, which is to be let through."""


class Shape(Protocol):
    """What is made of staged records before they are rows of a table: decoding, a transform."""

    @property
    def is_plain(self) -> bool:
        """Whether rows are the records as they were staged, so that a table may take over the staged file itself."""

    def frame(self, spark: SparkSession, landing: Landing) -> DataFrame:
        """The rows of one landing, which has records. Always of one partition's, whatever is landed beside them."""

    def frames(self, spark: SparkSession, landings: Sequence[Landing]) -> Sequence[DataFrame]:
        """Those of several landings; of one topic they have the same columns."""


@attrs.frozen(slots=True, kw_only=True)
class Layout:
    """How a table's rows are laid out in files, where the sink has a say."""

    partition_by: tuple[str, ...] = ()
    """Columns of the rows; a table that is there already must be partitioned so."""
    max_partitions: int = 100
    """Table partitions that one landing may touch at most; more of them is LandingError (no file a record)."""
    evolve_schema: bool = False
    """Whether columns that the table lacks are added to it; else they are LandingError."""


@attrs.frozen(slots=True, kw_only=True)
class Leftover:
    """Something below the table's root, or in its history, that no link names and no reader sees."""

    name: str
    """What `Table.remove` takes: a path, or another name that the table understands."""
    size_bytes: int
    changed: float
    """When it was last changed, in seconds since 1970."""
    what: str
    """In words: the data of a landing that did not win, a staged file ..."""
    others_may_take: float = 0.0
    """Seconds for which it may be on its way in somebody else's job (an OPTIMIZE), which no link of ours can stop."""

    @classmethod
    def at(cls, path: Path, what: str, others_may_take: float = 0.0) -> Self | None:
        """A file, or a directory with all that is in it; None for one that is gone by now."""
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
    """Where partitions land, exactly once. What a table promises:

    - of all tries to append link n of a chain, by whatever process, at most one ever succeeds;
    - a link and its rows appear together, for good, or not at all;
    - `links` sees every link whose `land` has returned, wherever that was called.

    All methods block and are called in worker threads, several at once. `spark` is a session that nobody else uses
    while the call lasts; settings that are changed in it are put back.
    """

    landings_a_job: int = 1
    """How many landings `land` can append with one Spark job; it may change while it lands."""

    restate_after: float | None = None
    """Seconds after which an idle chain's head has to be re-stated by an empty link, because the table forgets."""

    states_heads: bool = False
    """Whether `rest` writes anything down; where not, it is not called, which would take a moment of Spark's."""

    growth: str = ""
    """What has grown so long in the table that it slows starts or landings, and what to run; empty where nothing has.
    Kept up to date while it is looked at. A sink warns of it once."""

    remembers: bool = True
    """Whether it knows its chains itself. Where not, Kafka's commits are all that tells of them (see `recall`), and a
    record lands at least once."""

    def adopts(self, shape: Shape) -> bool:
        """Whether `land` takes over the staged file itself, which is packed then as a table's file is."""
        return False

    @property
    @abstractmethod
    def name(self) -> str:
        """As a user writes it: `parquet:/data/orders`, `delta:/data/orders`, `iceberg:lake.db.orders`."""

    @property
    @abstractmethod
    def staging(self) -> Path:
        """A directory for records on their way into Spark: all of Spark's workers can read it, readers of the table
        never see it. There once the table is open."""

    def takes_one_driver(self, settings: Mapping[str, str]) -> bool:
        """Whether members land in it with one Spark driver only, as far as its name and Spark's settings say."""
        return False

    def prepare(self) -> None:
        """Check what takes a moment and needs no Spark, before Spark starts. `open` does the rest, in a thread.

        Raises:
            HandlerError: The table cannot be landed in.
            LandingError: It cannot be landed in now, which may pass.
        """

    @abstractmethod
    def open(self, spark: SparkSession) -> None:
        """Make the table ready before anything is consumed. Raises HandlerError if it cannot be landed in, or not
        exactly once, saying why and what to do about it."""

    @abstractmethod
    def heads(self, spark: SparkSession, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        """The last link of each of these chains that has begun. Raises ChainError where it cannot be proved."""

    @abstractmethod
    def links(self, spark: SparkSession, key: ChainKey, since: int) -> Sequence[Link]:
        """The links of this chain from number `since` on, in order; `rows` and `size_bytes` as the table has them.

        Those that the table has forgotten are left out at the beginning. Raises BrokenChainError.
        """

    @abstractmethod
    def land(self, spark: SparkSession, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        """Try to append these landings, of as many chains, `landings_a_job` at most; each is all or nothing by itself.

        Raises whatever went wrong; neither that nor a return says which of them were appended.
        """

    def evaluator(self, spark: SparkSession) -> Evaluate:
        """What finds out whether rows of a shape's would be written, as the table is now, without writing any: raises
        what keeps them from being computed, and for a row that the table requires otherwise."""
        return to_nowhere

    def recall(self, head: Link) -> None:
        """Told, where the table does not remember, what Kafka's commit says is a chain's last link, before the next one
        lands; `links` has it from then on."""

    def rest(self, spark: SparkSession, heads: Iterable[Link]) -> None:
        """Told, where it `states_heads`, when the owner of chains gives them up in order, whose last links these are: a
        table that forgets may write them down, so that they can be proved however long nobody lands. Not told of what
        has died, nor where a rebalance leaves no time for it: until they are forgotten the links prove themselves."""

    # -- for the audit, also of a table that was not opened -------------------------------------------

    needs_spark: bool = True
    """Whether what is asked of a table takes a SparkSession. Where not, `spark` may be None, but in `open`, `read`, and
    in `land` for links with records; and `batches` gives the rows."""

    forgets: bool = False
    """Whether the oldest links of a chain may be gone from `links`, though nothing is wrong."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Those of these columns that there are, of all rows that anybody might read: without Spark."""
        raise NotImplementedError

    def driver_lock(self, spark: SparkSession) -> Path | None:
        """The lease (lease.py) of who commits with a Spark driver of its own, where `spark` is of such a one, and the
        table loses commits of two; None where any number may commit."""
        return None

    def unpublished(self, spark: SparkSession) -> Sequence[Unpublished]:
        """Return what plain readers of the table may miss, since somebody died before it was published."""
        return ()

    def recover(self, spark: SparkSession) -> None:
        """Publish what `unpublished` returns. Members may go on landing. Raises HandlerError, LandingError."""

    def open_unstaged(self, spark: SparkSession) -> None:
        """As `open`, for links that bring no records: nothing has to be staged."""
        self.open(spark)

    @abstractmethod
    def keys(self, spark: SparkSession) -> Sequence[ChainKey]:
        """Every chain in the table."""

    def all_links(self, spark: SparkSession, keys: Iterable[ChainKey]) -> Mapping[ChainKey, Sequence[Link]]:
        """The links of all these chains from number 1 on, as `links` has them: read once, where the table can."""
        return {key: self.links(spark, key, 1) for key in keys}

    @abstractmethod
    def read(self, spark: SparkSession, version: str | None = None) -> DataFrame:
        """The rows that links have brought and nobody has deleted; as of an older `version`, where the table keeps
        versions. Raises HandlerError."""

    @abstractmethod
    def heads_at(self, spark: SparkSession, version: str) -> dict[ChainKey, Link]:
        """Every chain's last link as of an older version of the table. Raises HandlerError where it keeps none."""

    @abstractmethod
    def leftovers(self, spark: SparkSession) -> Sequence[Leftover]:
        """What landings that did not win, or did not end, have left behind; also of those that are on their way."""

    @abstractmethod
    def remove(self, spark: SparkSession, leftover: Leftover) -> None:
        """Remove one of `leftovers`; nothing happens if it is gone already."""
