"""What a day came to: lag over time, file sizes. Pure. Times are seconds of one monotonic clock, sizes are bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

import attrs
import numpy as np

from bench.common.results import Result
from bench.common.spread import Spread
from bench.common.tables import Column, Row, Series, Table

AFTER = 60.0
"""Seconds after a change that are told apart, at most up to the next one."""

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
    """How many messages a producer had sent."""

    at: float
    messages: int


@attrs.frozen
class Look:
    """How far the table, and the group's commits, had come: each partition's offset behind the last record."""

    at: float
    landed: Sequence[int]
    committed: Sequence[int]


@attrs.frozen
class Lag:
    at: float
    seconds: float
    """How long ago the oldest record was produced that had not landed; 0 where all had."""
    rows: int
    committed: int
    """Rows that were not committed."""


@attrs.frozen
class Change:
    at: float
    name: str


class Production:
    """What was sent when: message n of all went to partition n % partitions."""

    def __init__(self, sent: Sequence[Sent], partitions: int) -> None:
        """`sent` in order. Raises ValueError for none."""
        if not sent:
            raise ValueError("a producer that has told nothing")
        self._times = [one.at for one in sent]
        self._counts = [one.messages for one in sent]
        self._partitions = partitions

    def messages(self, at: float) -> int:
        """How many had been sent by then."""
        return int(np.interp(at, self._times, self._counts))

    def time(self, partition: int, offset: int) -> float:
        """When this record was sent; when the last one was, for one that was not."""
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
        """Where the partition's log ended then."""
        return len(range(partition, self.messages(at), self._partitions))


def lags(looks: Sequence[Look], production: Production) -> list[Lag]:
    return [_lag(look, production) for look in looks]


def _lag(look: Look, production: Production) -> Lag:
    ends = [production.offset(partition, look.at) for partition in range(len(look.landed))]
    behind = [
        look.at - production.time(partition, landed)
        for partition, (landed, end) in enumerate(zip(look.landed, ends, strict=True))
        if landed < end
    ]
    return Lag(
        at=look.at,
        seconds=max(behind, default=0.0),
        rows=_missing(ends, look.landed),
        committed=_missing(ends, look.committed),
    )


def _missing(ends: Sequence[int], reached: Sequence[int]) -> int:
    return sum(max(end - offset, 0) for end, offset in zip(ends, reached, strict=True))


def lag_table(title: str, told: Sequence[Lag], changes: Sequence[Change], notes: Sequence[str], load: float) -> Table:
    """The whole time, the times after each change, and what is left; a line over time."""
    began = told[0].at
    line = Series(
        "landed lag, s",
        [lag.at - began for lag in told],
        [lag.seconds for lag in told],
        [(change.at - began, change.name) for change in changes],
    )
    spans = {change.name: span for change, span in zip(changes, _spans(changes), strict=True)}
    rows = [
        _lag_row("the whole time", told),
        _lag_row("without changes", [lag for lag in told if not any(_is_in(lag, span) for span in spans.values())]),
        *(_lag_row(f"after {name}", [lag for lag in told if _is_in(lag, span)]) for name, span in spans.items()),
    ]
    return Table(title, LAG_COLUMNS, [row for row in rows if row.figures], notes=notes, series=[line], load=load)


def failed_table(title: str, name: str, failure: str, load: float) -> Table:
    return Table(title, LAG_COLUMNS, [Row.of(Result(name, failures=[failure]), LAG_COLUMNS)], load=load)


def file_table(title: str, sizes: Sequence[int], rows: int, load: float) -> Table:
    """How large the table's files are."""
    told: Mapping[str, float] = {
        "files": len(sizes),
        **{name: float(np.quantile(sizes, quantile)) for name, quantile in _QUANTILES.items()},
    }
    figures = {name: Spread.of([number]) for name, number in told.items()}
    notes = [f"{rows / len(sizes):,.0f} rows and {sum(sizes) / len(sizes) / 1e6:.2f} MB a file on average"]
    return Table(title, FILE_COLUMNS, [Row("sarameya", True, figures)], notes=notes, load=load)


def _lag_row(name: str, told: Sequence[Lag]) -> Row:
    figures = {
        column.key: Spread.of([float(getattr(lag, column.key)) for lag in told]) for column in LAG_COLUMNS if told
    }
    return Row(name, True, figures)


def _spans(changes: Sequence[Change]) -> Iterator[tuple[float, float]]:
    ends = [*(change.at for change in changes[1:]), float("inf")]
    for change, end in zip(changes, ends, strict=True):
        yield change.at, min(change.at + AFTER, end)


def _is_in(lag: Lag, span: tuple[float, float]) -> bool:
    return span[0] <= lag.at < span[1]
