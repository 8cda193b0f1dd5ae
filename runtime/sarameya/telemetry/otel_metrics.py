"""Metrics of members for OpenTelemetry: the metrics of the Prometheus collector as OTLP points, exported periodically.

The points are passed to the exporter directly, without a MeterProvider. Its readers collect in their own thread, where
a member must not be read, and they accept no finished histograms. Names are the same as in Prometheus; units are in
OpenTelemetry's field for units.
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
from sarameya.telemetry.export_log import ExportLog
from sarameya.telemetry.prometheus import GroupCollector, families
from sarameya.telemetry.snapshot import MemberSnapshot

__all__ = ["export_metrics"]

INTERVAL = 15.0
"""Seconds between exports."""
_LAST_EXPORT_SECONDS = 5.0
"""Maximum of seconds for the last export."""
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
    """Export every `interval` seconds until cancelled, and once more after that.

    Run it as a task: `nursery.start_soon(export_metrics, GroupCollector.of(group), OTLPMetricExporter())`.

    A failed export is logged, once until an export succeeds again, and later exports are still attempted. Shut down the
    exporter afterwards: it may still run an export in its thread.

    Args:
        collector: Source of the metrics.
        exporter: Receives them, in a worker thread.
        resource: Origin of the metrics; default from the environment (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES).
        interval: Seconds between exports.
        wall_clock: Returns seconds since 1970.
    """
    origin = resource if resource is not None else resource_of({"service.name": "sarameya"})
    starts, export_log = Starts(wall_clock()), ExportLog("metrics")

    async def send() -> None:
        try:
            now, members = wall_clock(), collector.members()
            data = metrics_data(families(members), origin, starts.of(members, now), now)
            result = await trio.to_thread.run_sync(partial(exporter.export, data), abandon_on_cancel=True)
        except Exception as error:  # noqa: BLE001 - members must continue after any exception of an exporter
            export_log.failed(f"{type(error).__name__}: {error}")
        else:
            if result is MetricExportResult.SUCCESS:
                export_log.worked()
            else:
                export_log.failed("see the exporter's own log")

    try:
        while True:
            await send()
            await trio.sleep(interval)
    finally:
        with trio.move_on_after(_LAST_EXPORT_SECONDS, shield=True):
            await send()


def resource_of(attributes: Mapping[str, str | int]) -> Resource:
    """Return a resource with these attributes. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override them."""
    return Resource.create(dict(attributes)).merge(OTELResourceDetector().detect())


_Member = tuple[str, str]
"""Group and worker: the labels of a member."""


class Starts:
    """Start time of each member's counters, in seconds since 1970.

    If a member replaces another with the same labels, its counters start at 0 at the time of the last export.
    """

    def __init__(self, began: float) -> None:
        self._last = began
        self._members: dict[_Member, tuple[Meters, float]] = {}

    def of(self, members: Iterable[MemberSnapshot], now: float) -> dict[_Member, float]:
        """Return the start times of these members, read at `now`."""
        for member in members:
            key = (member.status.group, str(member.worker))
            known = self._members.get(key)
            if known is None or known[0] is not member.meters:
                self._members[key] = (member.meters, self._last)
        self._last = now
        return {key: since for key, (_, since) in self._members.items()}


def metrics_data(
    metrics: Iterable[Family], resource: Resource, starts: Mapping[_Member, float], now: float
) -> MetricsData:
    """Convert metric families of the collector to OTLP. Pure.

    Args:
        metrics: The metric families.
        resource: Origin of the metrics.
        starts: Start time of each member's counters, in seconds since 1970.
        now: Present time, in seconds since 1970.
    """
    times = _Times({key: int(since * 1e9) for key, since in starts.items()}, int(now * 1e9))
    found = [metric for family in metrics if (metric := _metric(family, times)) is not None]
    scope = ScopeMetrics(_SCOPE, found, schema_url="")
    return MetricsData([ResourceMetrics(resource, [scope], schema_url="")])


@attrs.frozen(slots=True)
class _Times:
    """Times in nanoseconds."""

    starts: Mapping[_Member, int]
    now: int

    def of(self, labels: Mapping[str, str]) -> tuple[int, int]:
        """Return the start time and the time of a row. Without a member, both are `now`."""
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
    """Return a point for each set of labels. Buckets are cumulative in Prometheus, but not in OTLP."""
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
    # Minimum and maximum are unknown. OTLP allows that, though the SDK's types do not.
    unknown: Any = None
    return HistogramDataPoint(dict(labels), *times, rows[-1][1], total, counts, bounds, min=unknown, max=unknown)
