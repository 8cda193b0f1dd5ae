"""Members' metrics for OpenTelemetry: what the Prometheus collector says, as OTLP's points, sent each few seconds.

They go to the exporter at once, not through a MeterProvider's readers: those ask in a thread of their own, where a
member must not be looked at, and histograms cannot be handed to them as they stand. Names are Prometheus'; units stand
where OpenTelemetry looks for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import attrs
import trio
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import Metric as Family
from prometheus_client.samples import Sample

from sarameya._version import __version__
from sarameya.meters import Meters
from sarameya.telemetry.exporting import Exporting
from sarameya.telemetry.prometheus import GroupCollector, families
from sarameya.telemetry.snapshot import MemberSnapshot

__all__ = ["export_metrics"]

INTERVAL = 15.0
"""Seconds from one export to the next."""
_FAREWELL = 5.0
"""Seconds for the last ones."""
_UNITS = {"seconds": "s", "bytes": "By", "records": "{record}", "offset": "{offset}", "rows": "{row}"}
_SCOPE = InstrumentationScope("sarameya", __version__)


async def export_metrics(
    collector: GroupCollector,
    exporter: MetricExporter,
    *,
    resource: Resource | None = None,
    interval: float = INTERVAL,
    wall_clock: Callable[[], float] = time.time,
) -> None:
    """Send them each `interval` seconds, until cancelled, and once more then. A task of one's own nursery:

    `nursery.start_soon(export_metrics, GroupCollector.of(group), OTLPMetricExporter())`. What cannot be sent is told to
    the log, once until it can be again, and the next ones are sent all the same. Shut the exporter down afterwards: it
    may still be trying.
    `resource` says whose they are; by default what the environment does (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES).
    """
    whose = resource if resource is not None else resource_of({"service.name": "sarameya"})
    starts, told = Starts(wall_clock()), Exporting("metrics")

    async def send() -> None:
        try:
            now, members = wall_clock(), collector.members()
            data = metrics_data(families(members), whose, starts.of(members, now), now)
            result = await trio.to_thread.run_sync(partial(exporter.export, data), abandon_on_cancel=True)
        except Exception as error:  # noqa: BLE001 - whatever an exporter raises, members go on
            told.failed(f"{type(error).__name__}: {error}")
        else:
            if result is MetricExportResult.SUCCESS:
                told.worked()
            else:
                told.failed("the exporter says why")

    try:
        while True:
            await send()
            await trio.sleep(interval)
    finally:
        with trio.move_on_after(_FAREWELL, shield=True):
            await send()


def resource_of(attributes: Mapping[str, str | int]) -> Resource:
    """Who tells, where OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES do not say otherwise."""
    return Resource.create(dict(attributes)).merge(OTELResourceDetector().detect())


_Member = tuple[str, str]
"""Group and worker, as labels have them."""


class Starts:
    """Since when each member's counters count: one that is made anew begins at 0 again, after what was last sent of the
    one before. Times are seconds since 1970."""

    def __init__(self, began: float) -> None:
        self._last = began
        self._members: dict[_Member, tuple[Meters, float]] = {}

    def of(self, members: Iterable[MemberSnapshot], now: float) -> dict[_Member, float]:
        """Of these, which are looked at now."""
        for one in members:
            key = (one.status.group, str(one.worker))
            known = self._members.get(key)
            if known is None or known[0] is not one.meters:
                self._members[key] = (one.meters, self._last)
        self._last = now
        return {key: since for key, (_, since) in self._members.items()}


def metrics_data(
    metrics: Iterable[Family], resource: Resource, starts: Mapping[_Member, float], now: float
) -> MetricsData:
    """Families of the collector as OTLP has them; counters are since their member's start. Times are seconds since
    1970. Pure."""
    times = _Times({key: int(since * 1e9) for key, since in starts.items()}, int(now * 1e9))
    found = [metric for family in metrics if (metric := _metric(family, times)) is not None]
    scope = ScopeMetrics(_SCOPE, found, schema_url="")
    return MetricsData([ResourceMetrics(resource, [scope], schema_url="")])


@attrs.frozen(slots=True)
class _Times:
    """In nanoseconds."""

    starts: Mapping[_Member, int]
    now: int

    def of(self, labels: Mapping[str, str]) -> tuple[int, int]:
        """When the row was begun and looked at; what is no member's has no beginning."""
        return self.starts.get((labels.get("group", ""), labels.get("worker", "")), self.now), self.now


def _metric(family: Family, times: _Times) -> Metric | None:
    if not family.samples:
        return None
    data: Gauge | Sum | Histogram
    match family.type:
        case "histogram":
            data = Histogram(_histograms(family.samples, times), AggregationTemporality.CUMULATIVE)
        case "counter":
            points = [NumberDataPoint(s.labels, *times.of(s.labels), s.value) for s in family.samples]
            data = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
        case _:
            data = Gauge([NumberDataPoint(s.labels, *times.of(s.labels), s.value) for s in family.samples])
    return Metric(family.name, family.documentation, _UNITS.get(family.name.rpartition("_")[2], ""), data)


def _histograms(samples: Iterable[Sample], times: _Times) -> list[HistogramDataPoint]:
    """One for each set of labels: its buckets, which are cumulative in Prometheus and are not here."""
    buckets: dict[frozenset[tuple[str, str]], list[tuple[float, int]]] = {}
    sums: dict[frozenset[tuple[str, str]], float] = {}
    for sample in samples:
        labels = frozenset((name, value) for name, value in sample.labels.items() if name != "le")
        if sample.name.endswith("_bucket"):
            buckets.setdefault(labels, []).append((float(sample.labels["le"]), int(sample.value)))
        elif sample.name.endswith("_sum"):
            sums[labels] = sample.value
    points = [(dict(labels), rows, sums[labels]) for labels, rows in buckets.items()]
    return [_point(labels, rows, total, times.of(labels)) for labels, rows, total in points]


def _point(
    labels: Mapping[str, str], rows: list[tuple[float, int]], total: float, times: tuple[int, int]
) -> HistogramDataPoint:
    counts = [after - before for (_, before), (_, after) in zip([(0.0, 0), *rows], rows, strict=False)]
    bounds = [bound for bound, _ in rows[:-1]]
    # Least and most are not known, and OTLP lets them be left out, though the SDK's types do not say so.
    unknown: Any = None
    return HistogramDataPoint(dict(labels), *times, rows[-1][1], total, counts, bounds, min=unknown, max=unknown)
