"""Figures of a day: lag over time, and file sizes. Pure. Times are seconds of the monotonic clock, sizes are bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

import attrs
import numpy as np

from bench.common.results import Result
from bench.common.spread import Spread
from bench.common.tables import Column, Row, Series, Table

AFTER = 60.0
"""Seconds after a change that have their own row, at most up to the next change."""

SECONDS, ROWS, COMMITTED = "seconds", "rows", "committed"
LAG_COLUMNS = (
    Column(SECONDS, "lag, s", digits=1),
    Column(ROWS, "lag, 1000 rows", scale=1e-3),
    Column(COMMITTED, "committed, 1000 rows", scale=1e-3),
)
_QUANTILES = {"least": 0.0, "5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95, "most": 1.0}
FILE_COLUMNS = (
    Column("files", "files"),
    *(Column(name, f"{name}, MB" if name == "least" else name, scale=1e-6, digits=2) for name in _QUANTILES),
)


@attrs.frozen
class Sent:
    """Number of messages that the producer had sent at a time."""

    at: float
    messages: int


@attrs.frozen
class Observation:
    """Offsets of all partitions at one time.

    Attributes:
        at: Time of the observation.
        landed: Offset after the last landed record of each partition.
        committed: Committed offset of each partition.
    """

    at: float
    landed: Sequence[int]
    committed: Sequence[int]


@attrs.frozen
class Lag:
    """Lag at one time."""

    at: float
    seconds: float
    """Age of the oldest record that had not landed; 0 if all had."""
    rows: int
    """Number of records that had not landed."""
    committed: int
    """Number of records that were not committed."""


@attrs.frozen
class Change:
    """A change of the group's members."""

    at: float
    name: str


class Production:
    """Times at which messages were sent. Message n of the topic is in partition n % partitions."""

    def __init__(self, sent: Sequence[Sent], partitions: int) -> None:
        """Create from the producer's reports.

        Args:
            sent: Reports in order.
            partitions: Number of partitions.

        Raises:
            ValueError: There are no reports.
        """
        if not sent:
            raise ValueError("the producer has reported nothing")
        self._times = [report.at for report in sent]
        self._counts = [report.messages for report in sent]
        self._partitions = partitions

    def messages(self, at: float) -> int:
        """Return the number of messages sent by this time."""
        return int(np.interp(at, self._times, self._counts))

    def time(self, partition: int, offset: int) -> float:
        """Return when this record was sent. If it was not, return when the last one was."""
        number = offset * self._partitions + partition
        after = bisect_right(self._counts, number)
        if after == len(self._counts):
            return self._times[-1]
        if after == 0:
            return self._times[0]
        before = after - 1
        share = (number - self._counts[before]) / (self._counts[after] - self._counts[before])
        return self._times[before] + share * (self._times[after] - self._times[before])

    def offset(self, partition: int, at: float) -> int:
        """Return the partition's log end offset at this time."""
        return len(range(partition, self.messages(at), self._partitions))


def lags(observations: Sequence[Observation], production: Production) -> list[Lag]:
    """Return the lag at each observation."""
    return [_lag(observation, production) for observation in observations]


def _lag(observation: Observation, production: Production) -> Lag:
    ends = [production.offset(partition, observation.at) for partition in range(len(observation.landed))]
    ages = [
        observation.at - production.time(partition, landed)
        for partition, (landed, end) in enumerate(zip(observation.landed, ends, strict=True))
        if landed < end
    ]
    return Lag(
        at=observation.at,
        seconds=max(ages, default=0.0),
        rows=_lag_in_records(ends, observation.landed),
        committed=_lag_in_records(ends, observation.committed),
    )


def _lag_in_records(ends: Sequence[int], offsets: Sequence[int]) -> int:
    return sum(max(end - offset, 0) for end, offset in zip(ends, offsets, strict=True))


def lag_table(title: str, points: Sequence[Lag], changes: Sequence[Change], notes: Sequence[str], load: float) -> Table:
    """Return a table of the lag: a row for the whole time, for the time without changes, and after each change."""
    start = points[0].at
    line = Series(
        "landed lag, s",
        [lag.at - start for lag in points],
        [lag.seconds for lag in points],
        [(change.at - start, change.name) for change in changes],
    )
    spans = {change.name: span for change, span in zip(changes, _spans(changes), strict=True)}
    rows = [
        _lag_row("the whole time", points),
        _lag_row("without changes", [lag for lag in points if not any(_is_in(lag, span) for span in spans.values())]),
        *(_lag_row(f"after {name}", [lag for lag in points if _is_in(lag, span)]) for name, span in spans.items()),
    ]
    return Table(title, LAG_COLUMNS, [row for row in rows if row.figures], notes=notes, series=[line], load=load)


def failed_table(title: str, name: str, failure: str, load: float) -> Table:
    """Return the table of a failed day."""
    return Table(title, LAG_COLUMNS, [Row.of(Result(name, failures=[failure]), LAG_COLUMNS)], load=load)


def file_table(title: str, sizes: Sequence[int], rows: int, load: float) -> Table:
    """Return a table of the file sizes."""
    values: Mapping[str, float] = {
        "files": len(sizes),
        **{name: float(np.quantile(sizes, quantile)) for name, quantile in _QUANTILES.items()},
    }
    figures = {name: Spread.of([number]) for name, number in values.items()}
    notes = [f"{rows / len(sizes):,.0f} rows and {sum(sizes) / len(sizes) / 1e6:.2f} MB a file on average"]
    return Table(title, FILE_COLUMNS, [Row("sarameya", True, figures)], notes=notes, load=load)


def _lag_row(name: str, points: Sequence[Lag]) -> Row:
    figures = {
        column.key: Spread.of([float(getattr(lag, column.key)) for lag in points]) for column in LAG_COLUMNS if points
    }
    return Row(name, True, figures)


def _spans(changes: Sequence[Change]) -> Iterator[tuple[float, float]]:
    ends = [*(change.at for change in changes[1:]), float("inf")]
    for change, end in zip(changes, ends, strict=True):
        yield change.at, min(change.at + AFTER, end)


def _is_in(lag: Lag, span: tuple[float, float]) -> bool:
    return span[0] <= lag.at < span[1]
