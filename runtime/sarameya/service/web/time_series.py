"""The plotted numbers: lag and throughput of the last minutes, and each partition's rate.

Pure; `now` is an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import attrs

from sarameya.model import TopicPartition
from sarameya.service.monitor.members import WorkerStatus
from sarameya.telemetry.totals import totals

MINUTES = 15
"""The minutes that are kept, with a point for each second."""
_RATE_WINDOW = 10.0
"""Seconds over which a rate is measured."""


@attrs.frozen(slots=True)
class Point:
    """The numbers of all members together at a moment (seconds since 1970). Rates are per second; -1 is unknown."""

    at: float
    lag: int
    """The sum of the known position lags; -1 if no lag is known."""
    records: float
    """Messages per second that handlers got."""
    landed: float
    """Rows per second that handlers landed in tables."""
    committed_lag: int = -1
    """The sum of the known committed lags; -1 if no lag is known."""


_PLOTTED = ("at", "lag", "records", "landed", "committed_lag")


def _plotted(point: Point, field: str) -> float:
    value: float = getattr(point, field)
    return round(value, 3)


def lag_of(lags: Iterable[int]) -> int:
    """Return the sum of the known lags; -1 if no lag is known."""
    known = [lag for lag in lags if lag >= 0]
    return sum(known) if known else -1


class TimeSeries:
    """Points, and the counters from which their rates are computed."""

    def __init__(self) -> None:
        self._points: deque[Point] = deque(maxlen=MINUTES * 60)
        self._partitions: dict[tuple[int, TopicPartition], _Rate] = {}
        self._records: dict[int, _Rate] = {}
        self._landed: dict[int, _Rate] = {}

    @property
    def points(self) -> tuple[Point, ...]:
        """The points, the newest last."""
        return tuple(self._points)

    @property
    def columns(self) -> dict[str, list[float]]:
        """The points by field, as a page plots them."""
        return {field: [_plotted(point, field) for point in self._points] for field in _PLOTTED}

    @property
    def last(self) -> dict[str, float]:
        """The last point; empty if there is none."""
        return {field: _plotted(self._points[-1], field) for field in _PLOTTED} if self._points else {}

    def add(self, point: Point) -> None:
        """Add a point. Its time must be later than the last one."""
        self._points.append(point)

    def update(self, members: Iterable[WorkerStatus], now: float, wall_clock: float) -> None:
        """Add a point for the members now. Call it each second.

        Args:
            members: The states of the members.
            now: The time by which rates are measured.
            wall_clock: Seconds since 1970.
        """
        partitions: dict[tuple[int, TopicPartition], _Rate] = {}
        lags: list[int] = []
        committed_lags: list[int] = []
        snapshots = [status.snapshot for status in members if status.snapshot is not None]
        for member in snapshots:
            self._count(self._records, member.worker, sum(t.records for t in totals(member).values()), now)
            rows = sum(topic.landing_rows.total for topic in member.meters.topics.values())
            self._count(self._landed, member.worker, rows, now)
            for row in member.status.partitions:
                key = (member.worker, row.partition)
                partitions[key] = self._partitions.get(key) or _Rate()
                partitions[key].count(row.records_total, now)
                lags.append(row.lag)
                committed_lags.append(row.committed_lag)
        self._partitions = partitions
        alive = {member.worker for member in snapshots}
        records, landed = (sum(rates[w].per_second for w in alive) for rates in (self._records, self._landed))
        self.add(Point(wall_clock, lag_of(lags), records, landed, lag_of(committed_lags)))

    def records_per_second(self, worker: int, partition: TopicPartition) -> float:
        """Return the messages per second of a partition, over the last ten seconds; 0 if it is not read."""
        found = self._partitions.get((worker, partition))
        return 0.0 if found is None else found.per_second

    def _count(self, rates: dict[int, _Rate], worker: int, value: float, now: float) -> None:
        rates.setdefault(worker, _Rate()).count(value, now)


class _Rate:
    """The growth of a counter over the last seconds. A counter that falls has restarted."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()

    def count(self, value: float, now: float) -> None:
        if self._seen and value < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, value))
        while len(self._seen) > 2 and self._seen[1][0] <= now - _RATE_WINDOW:
            self._seen.popleft()

    @property
    def per_second(self) -> float:
        (then, before), (now, after) = self._seen[0], self._seen[-1]
        return (after - before) / (now - then) if now > then else 0.0
