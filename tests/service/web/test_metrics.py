"""Metrics on `/metrics` beside those of the members."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Metric, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
from prometheus_client.registry import Collector
from trio.testing import MockClock

from sarameya import ConsumerGroup
from sarameya.service.monitor.local_members import LocalMembers
from sarameya.service.web.metrics import MetricsCollector
from sarameya.service.web.status_board import StatusBoard
from sarameya.telemetry.prometheus import GroupCollector


def exposed(others: Collector = REGISTRY) -> MetricsCollector:
    return MetricsCollector(StatusBoard("g", LocalMembers([1]), stall_after=60.0, why_stopping=lambda: ""), others)


def names(found: MetricsCollector) -> list[str]:
    """Return the names of the metric families, parsed strictly."""
    return [family.name for family in parse(generate_openmetrics(found).decode())]


async def test_metrics_of_process_and_handler_are_included(autojump_clock: MockClock) -> None:
    posted = Counter("orders_posted", "Metric of a handler.")
    try:
        found = names(exposed())
        assert {"sarameya_build_info", "sarameya_worker_heard_seconds", "orders_posted"} <= {*found}
        assert {"process_cpu_seconds", "process_resident_memory_bytes", "process_open_fds"} <= {*found}
    finally:
        REGISTRY.unregister(posted)


async def test_own_metric_hides_a_foreign_one_of_the_same_name(autojump_clock: MockClock) -> None:
    """A handler may register its group's metrics itself."""
    others = CollectorRegistry()
    others.register(GroupCollector.of(ConsumerGroup(["localhost:1"], "h")))
    others.register(Gauge("orders_open", "Metric of a handler.", registry=None))
    found = names(exposed(others))
    assert len(found) == len({*found})
    assert "orders_open" in found
    assert b'group="h"' not in generate_latest(exposed(others))


async def test_failing_foreign_metrics_are_reported_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Collector):
        def collect(self) -> Iterable[Metric]:
            raise OSError("no")

    found = exposed(Broken())
    assert names(found) == names(found) == [family.name for family in exposed().own()]
    assert caplog.messages == ["metrics that were registered with prometheus_client cannot be collected"]
