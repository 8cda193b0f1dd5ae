"""Records that keep all others from landing: which ones, and why. Blocking, in a thread of Spark's; no trio.

A landing has failed, and nobody else has landed it. Runs of its records are shaped and evaluated, and come to nothing:
halves of what fails (`bisecting`), until it is known which records fail alone. Those become dead letters, the others
land as the same link.

What is not a record's fault must not cost any of them: an error that comes without any record (a column that the
transform misspells), more failures than are plausible, one that does not come again, Spark's own trouble. All of
these are LandingErrors, which say so, and whether it may pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs

from sarameya_handlers.landing.dead_letters import DeadLetter
from sarameya_handlers.landing.links import Link
from sarameya_handlers.spark.errors import LandingError, cause_of
from sarameya_handlers.spark.landing import Try
from sarameya_handlers.spark.poison.bisecting import TogetherError, TooManyError, TooManyTriesError, find_failing
from sarameya_handlers.spark.poison.blame import Blame, blame
from sarameya_handlers.spark.tables.evaluating import Evaluate, to_nowhere
from sarameya_handlers.spark.tables.table import Landing, Shape

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


MOST_TRIES = 2_000
"""Jobs of Spark's at most that look for bad records of a batch, where no job says which ones they are. One of
250,000 records takes some 36, so fifty that are spread over a batch are found in time."""


class PoisonError(LandingError):
    """Records cannot land, and there is no place for dead letters. Names the first of them."""

    retriable = False

    @classmethod
    def of(cls, one: Try, poison: Poison) -> PoisonError:
        (offset, error), count = next(iter(poison.bad.items())), len(poison.bad)
        said = "cannot land" if count == 1 else f"cannot land, and {count - 1} more of this batch"
        return cls(
            f"{one.link}: the record at offset {offset} of {one.link.key.topic_partition} {said}: {error}. "
            "Set dead_letters to go on without them"
        )


@attrs.frozen(slots=True, kw_only=True)
class Tolerance:
    """How many records of a batch may be bad before it is taken for the fault of what is done to them all."""

    records: int = 1_000
    share: float = 0.5
    few: int = 10
    """So many always may: the one record of a quiet topic is all of its batch."""

    def of(self, count: int) -> int:
        """Of a batch of so many records."""
        return max(self.few, min(self.records, int(count * self.share)))


@attrs.frozen(slots=True, eq=False)
class Poison:
    """What has been found. Without `bad` records the landing has failed for another reason."""

    bad: Mapping[int, str]
    """Offset -> what it fails with, in a line; in order."""
    kept: pa.Table
    """All the other records, which can be shaped together."""


class BadRecord(Protocol):
    """What a shape tells of a record that it cannot decode."""

    @property
    def offset(self) -> int: ...

    @property
    def reason(self) -> str: ...


@runtime_checkable
class Surveying(Protocol):
    """A shape that can say which records it cannot decode, without trying."""

    def unreadable(self, spark: SparkSession, landing: Landing) -> Collection[BadRecord]: ...


def find(
    spark: SparkSession,
    check: Callable[[], None],
    *,
    one: Try,
    staging: Path,
    shape: Shape,
    tolerance: Tolerance | None = None,
    evaluate: Evaluate = to_nowhere,
) -> Poison:
    """Which of the records of a link that failed to land cannot be shaped, or are not taken; none if all of them are.

    `check` is called before each job, and raises where nobody waits any more. What a table itself does not take (a
    constraint) is found only if `evaluate`, its evaluator, knows of it. Raises LandingError (see above), and whatever
    keeps a shape from saying what it cannot decode, or its files from being written.
    """
    assert one.records is not None
    probes = _Probes(spark, check, one.link, staging, shape, evaluate)
    most = (tolerance or Tolerance()).of(one.records.num_rows)
    bad = probes.unreadable(one.records)
    if len(bad) > most:
        raise _too_many(one, len(bad), most, _Fault(Blame.RECORD, next(iter(bad.values()))))
    left = _without(one.records, bad)
    if left.num_rows and (fault := probes.fault(left)) is not None:
        if (always := probes.fault(left.slice(0, 0))) is not None:
            raise _failed(always, f"{one.link}: it fails without any record, too: {always.error}")
        bad |= _bisected(one, left, fault, probes, most - len(bad))
        left = _without(one.records, bad)
        if left.num_rows and (fault := probes.fault(left)) is not None:
            raise _failed(fault, f"{one.link}: without the {len(bad)} records that fail, others do: {fault.error}")
    return Poison(dict(sorted(bad.items())), left)


def dead_letters(one: Try, poison: Poison) -> list[DeadLetter]:
    """The bad records, whole, in order."""
    assert one.records is not None
    records = _only(one.records, poison.bad)
    rows, stamps = records.drop_columns(["timestamp"]).to_pylist(), _milliseconds(records)
    return [
        DeadLetter(
            offset=row["offset"],
            error=poison.bad[row["offset"]],
            key=row["key"],
            value=row["value"],
            headers=tuple((header["key"], header["value"]) for header in row["headers"] or ()),
            timestamp=stamp,
            timestamp_type=row["timestampType"],
        )
        for row, stamp in zip(rows, stamps, strict=True)
    ]


@attrs.frozen(slots=True)
class _Fault:
    """What records fail with. Not the exception, which may hold on to half a JVM."""

    blame: Blame
    error: str


class _Probes:
    """Tries records of one landing, and leaves nothing behind."""

    def __init__(
        self,
        spark: SparkSession,
        check: Callable[[], None],
        link: Link,
        staging: Path,
        shape: Shape,
        evaluate: Evaluate,
    ) -> None:
        self._spark = spark
        self._check = check
        self._link = link
        self._staging = staging
        self._shape = shape
        self._evaluate = evaluate
        self._count = 0

    def unreadable(self, records: pa.Table) -> dict[int, str]:
        """What the shape knows already."""
        shape = self._shape
        if shape.is_plain or not isinstance(shape, Surveying):
            return {}
        found: dict[int, str] = {}

        def survey(landing: Landing) -> None:
            found.update({bad.offset: bad.reason for bad in shape.unreadable(self._spark, landing)})

        self._staged(records, survey)
        return found

    def fault(self, records: pa.Table) -> _Fault | None:
        """What they fail with together, if that may be a record's fault. Raises LandingError where it cannot."""
        try:
            self._staged(records, lambda landing: self._evaluate(self._shape.frame(self._spark, landing)))
        except Exception as error:
            match blame(error):
                case Blame.SPARK:
                    raise _passing(
                        f"{self._link}: Spark failed while bad records were looked for: {cause_of(error)}"
                    ) from error
                case Blame.STATEMENT:
                    raise LandingError(f"{self._link}: it is no record's fault: {cause_of(error)}") from error
                case told:
                    return _Fault(told, cause_of(error))
        return None

    def _staged(self, records: pa.Table, use: Callable[[Landing], None]) -> None:
        import pyarrow.parquet as pq

        self._check()
        self._count += 1
        # A new name each time: Spark remembers what it knows of a file.
        path = self._staging / f"{self._link.attempt}-probe-{self._count}.parquet"
        try:
            pq.write_table(records, path, compression="none", use_dictionary=False, write_statistics=False)
            use(Landing(link=self._link, staged=path, records=records.num_rows))
        finally:
            path.unlink(missing_ok=True)


def _bisected(one: Try, left: pa.Table, fault: _Fault, probes: _Probes, most: int) -> dict[int, str]:
    """Those that fail alone. Each whose error says nothing of whose fault it is has to fail once more, while others do
    not: what has gone by is no record's."""
    try:
        failing = find_failing(
            left.num_rows,
            fault,
            lambda low, high: probes.fault(left.slice(low, high - low)),
            most,
            tries=MOST_TRIES,
        )
    except TooManyError as error:
        raise _too_many(one, error.count, most, error.error) from None
    except TooManyTriesError as error:
        raise _failed(
            error.error,
            f"{one.link}: at least {error.count} of {left.num_rows} records cannot be shaped, so far apart that it "
            f"takes more than {MOST_TRIES} jobs of Spark's to find them: {error.error.error}. Have the transform make "
            "null of what fails (try_cast and the like)",
        ) from None
    except TogetherError as error:
        count = error.high - error.low
        raise _failed(
            error.error, f"{one.link}: {count} records fail together, though none does alone: {error.error.error}"
        ) from None
    offsets = left["offset"]
    for place, found in failing:
        if found.blame is Blame.UNKNOWN:
            again = probes.fault(left.slice(place, 1))
            if again is None or probes.fault(left.slice(0, 0)) is not None:
                raise _passing(f"{one.link}: Spark failed, and does not say why: {found.error}")
    return {offsets[place].as_py(): found.error for place, found in failing}


def _too_many(one: Try, count: int, most: int, fault: _Fault) -> LandingError:
    assert one.records is not None
    return _failed(
        fault,
        f"{one.link}: at least {count} of {one.records.num_rows} records cannot be shaped, and no more than {most} are "
        f"taken for bad ones: something is wrong with the transform, or with all of them: {fault.error}",
    )


def _failed(fault: _Fault, text: str) -> LandingError:
    """Which passes where nothing says whose fault it is: a store that a transform reads from may have refused."""
    return _passing(text) if fault.blame is Blame.UNKNOWN else LandingError(text)


def _passing(text: str) -> LandingError:
    error = LandingError(text)
    error.passes = True
    return error


def _without(records: pa.Table, offsets: Collection[int]) -> pa.Table:
    import pyarrow.compute as pc

    return records.filter(pc.invert(_are(records, offsets))) if offsets else records


def _only(records: pa.Table, offsets: Collection[int]) -> pa.Table:
    return records.filter(_are(records, offsets))


def _are(records: pa.Table, offsets: Collection[int]) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.is_in(records["offset"], value_set=pa.array(sorted(offsets), pa.int64()))


def _milliseconds(records: pa.Table) -> list[int | None]:
    """Not by Python's datetime, which knows no year before 1 and none behind 9999."""
    import pyarrow as pa

    return [None if stamp is None else stamp // 1000 for stamp in records["timestamp"].cast(pa.int64()).to_pylist()]
