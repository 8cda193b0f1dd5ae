"""Search for the records that keep a link from landing. Blocking, for a worker thread; no trio.

An attempt has failed, and no other owner has landed the link. Runs of its records are converted and evaluated without
being written. Failing runs are halved (bisection.py) until the records that fail alone are known. These become dead
letters, and the others land as the same link.

If no record causes the error, no record may be lost: an error without any record (the transform misspells a column),
more failures than are plausible, an error that does not occur again, a failure of Spark itself. Each of these raises a
LandingError, which has `passes` set if a retry may succeed. It is a ShapeError if the transform or the schema has to
change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs

from sarameya_handlers.landing.dead_letters.letters import DeadLetter
from sarameya_handlers.landing.links import Link
from sarameya_handlers.spark.error_sources import ErrorSource, source_of
from sarameya_handlers.spark.errors import LandingError, cause_of
from sarameya_handlers.spark.poison.bisection import TogetherError, TooManyError, TooManyTriesError, find_failing
from sarameya_handlers.spark.shaping.errors import ShapeError
from sarameya_handlers.spark.tables.evaluation import Evaluate, compute_all
from sarameya_handlers.spark.tables.staging import Staging
from sarameya_handlers.spark.tables.table import Landing, PendingLink, Shape

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


MAX_JOBS = 2_000
"""Maximum number of Spark jobs that search a batch for bad records. To find one bad record of 250,000 takes about 36
jobs, so fifty spread over a batch are found."""


class PoisonError(LandingError):
    """Records cannot land, and no place for dead letters is set. The text names the first record."""

    retriable = False
    permanent = True

    @classmethod
    def of(cls, pending: PendingLink, poison: Poison) -> PoisonError:
        (offset, error), count = next(iter(poison.bad.items())), len(poison.bad)
        verb = "cannot land" if count == 1 else f"cannot land, and {count - 1} more of this batch"
        return cls(
            f"{pending.link}: the record at offset {offset} of {pending.link.key.topic_partition} {verb}: {error}. "
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
    """All other records. They can be converted together."""


class RecordFault(Protocol):
    """A record that a shape cannot decode, with the reason."""

    @property
    def offset(self) -> int: ...

    @property
    def reason(self) -> str: ...


@runtime_checkable
class Surveyor(Protocol):
    """A shape that can list the records that it cannot decode, without a search."""

    def unreadable(self, spark: SparkSession, landing: Landing) -> Collection[RecordFault]: ...


@attrs.define(slots=True, eq=False)
class SearchMemory:
    """Cached results of a partition's last search. After a rebalance, the next owner in this process uses them.

    Cached results alone decide nothing: each record is tried alone before it is reported as bad, and the records that
    remain are tried together.
    """

    _first_record: object = None
    _faults: dict[tuple[int, int], _Failure | None] = attrs.field(factory=dict)

    def begin(self, records: pa.Table) -> bool:
        """Start a search. Return whether there are results of the last search, if it had the same first record."""
        first = records.slice(0, 1).select(["offset", "key", "value"]).to_pylist()
        if first != self._first_record:
            self._first_record, self._faults = first, {}
        return bool(self._faults)

    def forget(self) -> None:
        """Remove all results, since some are no longer true."""
        self._faults.clear()

    def fault(self, records: pa.Table, probes: _Probes) -> _Failure | None:
        """Return the error of a run of records, from the cache or by a try; None if the run does not fail."""
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
    pending: PendingLink,
    staging: Staging,
    shape: Shape,
    tolerance: Tolerance | None = None,
    evaluate: Evaluate = compute_all,
    memory: SearchMemory | None = None,
) -> Poison:
    """Find the records of a failed link that cannot be converted or are refused by the table; none if all are good.

    Args:
        spark: The session.
        check: Called before each job. Raises if the result is no longer needed.
        pending: The link and its records.
        staging: Place of the records that are tried.
        shape: Converts records to rows.
        tolerance: Limit of bad records.
        evaluate: The table's evaluator. Requirements unknown to it (a constraint) are not checked.
        memory: Results of the partition's last search.

    Raises:
        LandingError: The cause is not a record (see the module's text).
    """
    assert pending.records is not None
    probes = _Probes(spark, check, pending.link, staging, shape, evaluate)
    limit = (tolerance or Tolerance()).of(pending.records.num_rows)
    memory = memory or SearchMemory()
    is_continued = memory.begin(pending.records)
    try:
        return _find_poison(pending, probes, limit, memory)
    except LandingError:
        if not is_continued:
            raise
        memory.forget()
        return _find_poison(pending, probes, limit, memory)


def _find_poison(pending: PendingLink, probes: _Probes, limit: int, memory: SearchMemory) -> Poison:
    assert pending.records is not None
    bad = probes.unreadable(pending.records)
    if len(bad) > limit:
        raise _too_many(pending, len(bad), limit, _Failure(ErrorSource.RECORD, next(iter(bad.values()))))
    rest = _without(pending.records, bad)
    if rest.num_rows and (fault := probes.fault(rest)) is not None:
        if (without_records := probes.fault(rest.slice(0, 0))) is not None:
            text = f"{pending.link}: the same job fails without any record, too: {without_records.error}"
            raise _failure(without_records, text)
        bad |= _bisect(pending, rest, fault, probes, limit - len(bad), memory)
        rest = _without(pending.records, bad)
        if rest.num_rows and (fault := probes.fault(rest)) is not None:
            text = (
                f"{pending.link}: after the {len(bad)} failing records were removed, other records fail: {fault.error}"
            )
            raise _failure(fault, text)
    return Poison(dict(sorted(bad.items())), rest)


def dead_letters(pending: PendingLink, poison: Poison) -> list[DeadLetter]:
    """Return the bad records as dead letters, in order."""
    assert pending.records is not None
    records = _only(pending.records, poison.bad)
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
    """Source and text of an error. The exception itself is not kept: it may refer to many objects of the JVM."""

    source: ErrorSource
    error: str


class _Probes:
    """Tries runs of records of one attempt, and removes its files."""

    def __init__(
        self,
        spark: SparkSession,
        check: Callable[[], None],
        link: Link,
        staging: Staging,
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
        """Return the reason for each record that the shape itself cannot decode, by offset."""
        shape = self._shape
        if shape.is_plain or not isinstance(shape, Surveyor):
            return {}
        found: dict[int, str] = {}

        def survey(landing: Landing) -> None:
            found.update({bad.offset: bad.reason for bad in shape.unreadable(self._spark, landing)})

        self._with_staged(records, survey)
        return found

    def fault(self, records: pa.Table) -> _Failure | None:
        """Return the error with which records fail together; None if they do not fail.

        Raises:
            LandingError: The cause cannot be a record.
        """
        try:
            self._with_staged(records, lambda landing: self._evaluate(self._shape.frame(self._spark, landing)))
        except Exception as error:
            match source_of(error):
                case ErrorSource.SPARK:
                    raise _passing_error(
                        f"{self._link}: Spark failed during the search for bad records: {cause_of(error)}"
                    ) from error
                case ErrorSource.STATEMENT:
                    raise ShapeError(f"{self._link}: no record causes this error: {cause_of(error)}") from error
                case source:
                    return _Failure(source, cause_of(error))
        return None

    def _with_staged(self, records: pa.Table, use: Callable[[Landing], None]) -> None:
        self._check()
        self._count += 1
        with self._staging.stage(f"{self._link.attempt}-probe-{self._count}", records) as staged:
            use(Landing(link=self._link, staged=staged, records=records.num_rows))


def _bisect(
    pending: PendingLink, records: pa.Table, fault: _Failure, probes: _Probes, limit: int, memory: SearchMemory
) -> dict[int, str]:
    """Return the error of each record that fails alone, by offset.

    If an error has an unknown source, the record must fail once more, and an empty run must not. Otherwise the error
    has passed, or is not caused by a record.
    """
    try:
        failing = find_failing(
            records.num_rows,
            fault,
            lambda low, high: memory.fault(records.slice(low, high - low), probes),
            limit,
            tries=MAX_JOBS,
        )
    except TooManyError as error:
        raise _too_many(pending, error.count, limit, error.error) from None
    except TooManyTriesError as error:
        raise _failure(
            error.error,
            f"{pending.link}: at least {error.count} of {records.num_rows} records cannot be shaped, so far apart that "
            f"it takes more than {MAX_JOBS} Spark jobs to find them: {error.error.error}. Let the transform return "
            "null for values that fail (try_cast and the like)",
        ) from None
    except TogetherError as error:
        count = error.high - error.low
        raise _failure(
            error.error,
            f"{pending.link}: {count} records fail as one batch, but each one succeeds alone: {error.error.error}",
        ) from None
    offsets = records["offset"]
    for place, found in failing:
        if found.source is ErrorSource.UNKNOWN:
            again = probes.fault(records.slice(place, 1))
            if again is None or probes.fault(records.slice(0, 0)) is not None:
                raise _passing_error(f"{pending.link}: Spark failed for an unknown reason: {found.error}")
    return {offsets[place].as_py(): found.error for place, found in failing}


def _too_many(pending: PendingLink, count: int, limit: int, fault: _Failure) -> LandingError:
    assert pending.records is not None
    return _failure(
        fault,
        f"{pending.link}: at least {count} of {pending.records.num_rows} records cannot be shaped, and no more than "
        f"{limit} are accepted as bad records: perhaps the transform is wrong, or the whole batch: {fault.error}",
    )


def _failure(fault: _Failure, text: str) -> LandingError:
    """Return the error to raise. It passes if its source is unknown: a store read by a transform may have failed."""
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
