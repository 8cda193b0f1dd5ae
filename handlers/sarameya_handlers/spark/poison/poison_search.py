"""Search for the records that keep a link from landing. Blocking, in a thread of Spark's; no trio.

An attempt has failed, and no other owner has landed the link. Runs of its records are converted and evaluated without
being written: halves of what fails (`bisection`), until it is known which records fail alone. Those become dead
letters, and the others land as the same link.

An error that no record causes must not cost any record: one that occurs without any record (the transform misspells a
column), more failures than are plausible, one that does not occur again, Spark's own trouble. Each of these is a
LandingError that says so, and whether it may pass; a ShapeError if the transform or the schema has to change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs

from sarameya_handlers.landing.dead_letters.letters import DeadLetter
from sarameya_handlers.landing.links import Link
from sarameya_handlers.spark.error_sources import ErrorSource, source_of
from sarameya_handlers.spark.errors import LandingError, cause_of
from sarameya_handlers.spark.poison.bisection import TogetherError, TooManyError, TooManyTriesError, find_failing
from sarameya_handlers.spark.shaping.errors import ShapeError
from sarameya_handlers.spark.tables.evaluation import Evaluate, compute_all
from sarameya_handlers.spark.tables.table import Landing, PendingLink, Shape

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


MAX_JOBS = 2_000
"""Most Spark jobs that search a batch for bad records. One of 250,000 records takes about 36 jobs, so fifty spread over
a batch are found in time."""


class PoisonError(LandingError):
    """Records cannot land, and there is no place for dead letters. Names the first record."""

    retriable = False
    permanent = True

    @classmethod
    def of(cls, one: PendingLink, poison: Poison) -> PoisonError:
        (offset, error), count = next(iter(poison.bad.items())), len(poison.bad)
        verb = "cannot land" if count == 1 else f"cannot land, and {count - 1} more of this batch"
        return cls(
            f"{one.link}: the record at offset {offset} of {one.link.key.topic_partition} {verb}: {error}. "
            "Set dead_letters to go on without them"
        )


@attrs.frozen(slots=True, kw_only=True)
class Tolerance:
    """Limit of bad records in a batch. With more of them, the transform itself is considered wrong."""

    records: int = 1_000
    share: float = 0.5
    few: int = 10
    """Bad records that are always tolerated: in a quiet topic, a batch may be a single record."""

    def of(self, count: int) -> int:
        """Return the limit for a batch of this size."""
        return max(self.few, min(self.records, int(count * self.share)))


@attrs.frozen(slots=True, eq=False)
class Poison:
    """Result of a search. Without `bad` records, the attempt failed for another reason."""

    bad: Mapping[int, str]
    """Error of each bad record, in one line, by offset, in order."""
    kept: pa.Table
    """All other records, which can be converted together."""


class RecordFault(Protocol):
    """A record that a shape cannot decode, with the reason."""

    @property
    def offset(self) -> int: ...

    @property
    def reason(self) -> str: ...


@runtime_checkable
class Surveyor(Protocol):
    """A shape that can list the records that it cannot decode, without trials."""

    def unreadable(self, spark: SparkSession, landing: Landing) -> Collection[RecordFault]: ...


@attrs.define(slots=True, eq=False)
class SearchMemory:
    """Results of a partition's last search. A rebalance ends a search; the next owner in this process goes on.

    Never proof: each record is tried alone before it is called bad, and all that are kept are tried together.
    """

    _first_record: object = None
    _faults: dict[tuple[int, int], _Failure | None] = attrs.field(factory=dict)

    def begin(self, records: pa.Table) -> bool:
        """Begin a search. Return whether results of the last one are kept, which began with the same record."""
        first = records.slice(0, 1).select(["offset", "key", "value"]).to_pylist()
        if first != self._first_record:
            self._first_record, self._faults = first, {}
        return bool(self._faults)

    def forget(self) -> None:
        """Forget all results: some no longer hold."""
        self._faults.clear()

    def fault(self, records: pa.Table, probes: _Probes) -> _Failure | None:
        """Try a run of records, unless its result is kept."""
        run = records["offset"][0].as_py(), records["offset"][-1].as_py()
        if run in self._faults:
            return self._faults[run]
        fault = probes.fault(records)
        if records.num_rows > 1 and (fault is None or fault.source is ErrorSource.RECORD):
            self._faults[run] = fault
        return fault


def find_poison(
    spark: SparkSession,
    check: Callable[[], None],
    *,
    one: PendingLink,
    staging: Path,
    shape: Shape,
    tolerance: Tolerance | None = None,
    evaluate: Evaluate = compute_all,
    memory: SearchMemory | None = None,
) -> Poison:
    """Find the records of a failed link that cannot be converted or are refused by the table; none if all are good.

    Args:
        spark: The session.
        check: Called before each job. Raises if the result is no longer wanted.
        one: The link and its records.
        staging: Directory for the records that are tried.
        shape: Makes rows of records.
        tolerance: Limit of bad records.
        evaluate: The table's evaluator. Requirements unknown to it (a constraint) are not checked.
        memory: Results of the partition's last search.

    Raises:
        LandingError: No record is at fault (see above).
    """
    assert one.records is not None
    probes = _Probes(spark, check, one.link, staging, shape, evaluate)
    most = (tolerance or Tolerance()).of(one.records.num_rows)
    memory = memory or SearchMemory()
    is_continued = memory.begin(one.records)
    try:
        return _find_poison(one, probes, most, memory)
    except LandingError:
        if not is_continued:
            raise
        memory.forget()
        return _find_poison(one, probes, most, memory)


def _find_poison(one: PendingLink, probes: _Probes, most: int, memory: SearchMemory) -> Poison:
    assert one.records is not None
    bad = probes.unreadable(one.records)
    if len(bad) > most:
        raise _too_many(one, len(bad), most, _Failure(ErrorSource.RECORD, next(iter(bad.values()))))
    left = _without(one.records, bad)
    if left.num_rows and (fault := probes.fault(left)) is not None:
        if (always := probes.fault(left.slice(0, 0))) is not None:
            raise _failure(always, f"{one.link}: it fails without any record, too: {always.error}")
        bad |= _bisect(one, left, fault, probes, most - len(bad), memory)
        left = _without(one.records, bad)
        if left.num_rows and (fault := probes.fault(left)) is not None:
            raise _failure(fault, f"{one.link}: without the {len(bad)} records that fail, others do: {fault.error}")
    return Poison(dict(sorted(bad.items())), left)


def dead_letters(one: PendingLink, poison: Poison) -> list[DeadLetter]:
    """Return the bad records as dead letters, in order."""
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
class _Failure:
    """Cause and text of an error. Not the exception itself, which may keep half a JVM alive."""

    source: ErrorSource
    error: str


class _Probes:
    """Tries records of one attempt, and leaves no files behind."""

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
        """Return the records that the shape itself cannot decode."""
        shape = self._shape
        if shape.is_plain or not isinstance(shape, Surveyor):
            return {}
        found: dict[int, str] = {}

        def survey(landing: Landing) -> None:
            found.update({bad.offset: bad.reason for bad in shape.unreadable(self._spark, landing)})

        self._staged(records, survey)
        return found

    def fault(self, records: pa.Table) -> _Failure | None:
        """Return the error with which records fail together. Raises LandingError if no record can be the cause."""
        try:
            self._staged(records, lambda landing: self._evaluate(self._shape.frame(self._spark, landing)))
        except Exception as error:
            match source_of(error):
                case ErrorSource.SPARK:
                    raise _passing_error(
                        f"{self._link}: Spark failed while bad records were looked for: {cause_of(error)}"
                    ) from error
                case ErrorSource.STATEMENT:
                    raise ShapeError(f"{self._link}: it is no record's fault: {cause_of(error)}") from error
                case source:
                    return _Failure(source, cause_of(error))
        return None

    def _staged(self, records: pa.Table, use: Callable[[Landing], None]) -> None:
        import pyarrow.parquet as pq

        self._check()
        self._count += 1
        # A new name each time: Spark caches what it knows of a file.
        path = self._staging / f"{self._link.attempt}-probe-{self._count}.parquet"
        try:
            pq.write_table(records, path, compression="none", use_dictionary=False, write_statistics=False)
            use(Landing(link=self._link, staged=path, records=records.num_rows))
        finally:
            path.unlink(missing_ok=True)


def _bisect(
    one: PendingLink, left: pa.Table, fault: _Failure, probes: _Probes, most: int, memory: SearchMemory
) -> dict[int, str]:
    """Return the records that fail alone, with their errors.

    A record whose error has no known cause must fail once more while an empty run does not: otherwise the error has
    passed, and is no record's.
    """
    try:
        failing = find_failing(
            left.num_rows,
            fault,
            lambda low, high: memory.fault(left.slice(low, high - low), probes),
            most,
            tries=MAX_JOBS,
        )
    except TooManyError as error:
        raise _too_many(one, error.count, most, error.error) from None
    except TooManyTriesError as error:
        raise _failure(
            error.error,
            f"{one.link}: at least {error.count} of {left.num_rows} records cannot be shaped, so far apart that it "
            f"takes more than {MAX_JOBS} jobs of Spark's to find them: {error.error.error}. Have the transform make "
            "null of what fails (try_cast and the like)",
        ) from None
    except TogetherError as error:
        count = error.high - error.low
        raise _failure(
            error.error, f"{one.link}: {count} records fail together, though none does alone: {error.error.error}"
        ) from None
    offsets = left["offset"]
    for place, found in failing:
        if found.source is ErrorSource.UNKNOWN:
            again = probes.fault(left.slice(place, 1))
            if again is None or probes.fault(left.slice(0, 0)) is not None:
                raise _passing_error(f"{one.link}: Spark failed, and does not say why: {found.error}")
    return {offsets[place].as_py(): found.error for place, found in failing}


def _too_many(one: PendingLink, count: int, most: int, fault: _Failure) -> LandingError:
    assert one.records is not None
    return _failure(
        fault,
        f"{one.link}: at least {count} of {one.records.num_rows} records cannot be shaped, and no more than {most} are "
        f"taken for bad ones: something is wrong with the transform, or with all of them: {fault.error}",
    )


def _failure(fault: _Failure, text: str) -> LandingError:
    """Return the error to raise. It may pass if its source is unknown: a store read by a transform may have failed."""
    return _passing_error(text) if fault.source is ErrorSource.UNKNOWN else ShapeError(text)


def _passing_error(text: str) -> LandingError:
    error = LandingError(text)
    error.passes = True
    return error


def _without(records: pa.Table, offsets: Collection[int]) -> pa.Table:
    import pyarrow.compute as pc

    return records.filter(pc.invert(_mask(records, offsets))) if offsets else records


def _only(records: pa.Table, offsets: Collection[int]) -> pa.Table:
    return records.filter(_mask(records, offsets))


def _mask(records: pa.Table, offsets: Collection[int]) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.is_in(records["offset"], value_set=pa.array(sorted(offsets), pa.int64()))


def _milliseconds(records: pa.Table) -> list[int | None]:
    """Return the timestamps in milliseconds. Python's datetime has no years before 1 or after 9999."""
    import pyarrow as pa

    return [None if stamp is None else stamp // 1000 for stamp in records["timestamp"].cast(pa.int64()).to_pylist()]
