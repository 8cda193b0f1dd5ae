"""Metrics and spans of OpenTelemetry's SDK, exported in memory and to a collector over OTLP."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData, NumberDataPoint
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from trio.testing import MockClock

from sarameya import (
    Claim,
    ConsumerGroup,
    ConsumerGroupHandler,
    Landed,
    LandingFailed,
    LandingStarted,
    Message,
    Session,
    TimestampType,
    TopicPartition,
)
from sarameya.meters import Meters, TopicMeters
from sarameya.service.monitor.otel import identity
from sarameya.status import GroupStatus
from sarameya.telemetry.otel_metrics import export_metrics, metrics_data, resource_of
from sarameya.telemetry.otel_tracing import MOST_LINKS, Tracing, context_of
from sarameya.telemetry.prometheus import GroupCollector
from sarameya.telemetry.snapshot import MemberSnapshot
from sarameya.testing import run_inline
from tests.group.kit import Recorder, deadline, orders, start_member
from tests.telemetry.otlp import collector_listening

ORDERS = TopicPartition("orders", 0)
TRACE = "0af7651916cd43dd8448eb211c80319c"


def parent(number: int = 0) -> bytes:
    return f"00-{int(TRACE, 16) + number:032x}-b7ad6b7169203331-01".encode()


async def test_metrics_reach_a_collector_over_otlp(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        cluster.produce_many("orders", 0, [(None, b"x")] * 3)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(3)
        await trio.sleep(5)
        families = GroupCollector.of(member.group).collect()
        data = metrics_data(families, Resource({"service.name": "s"}), {("g", "1"): 1000.0}, 1010.0)
        meters = {name: attrs.evolve(h, counts=[*h.counts]) for name, h in member.group.meters.requests.items()}
        await member.close()
    with collector_listening() as received:
        exporter = OTLPMetricExporter(endpoint=f"{received.url}/v1/metrics")
        assert exporter.export(data) is MetricExportResult.SUCCESS
        exporter.shutdown()
    (request,) = received.metrics
    (of_resource,) = request.resource_metrics
    assert {a.key: a.value.string_value for a in of_resource.resource.attributes} == {"service.name": "s"}
    (scope,) = of_resource.scope_metrics
    metrics = {metric.name: metric for metric in scope.metrics}
    (records,) = metrics["sarameya_records"].sum.data_points
    assert (records.as_int, records.start_time_unix_nano, records.time_unix_nano) == (3, 1000 * 10**9, 1010 * 10**9)
    assert metrics["sarameya_records"].sum.is_monotonic
    (lag,) = metrics["sarameya_partition_lag_records"].gauge.data_points
    assert {a.key: a.value.string_value for a in lag.attributes} == {
        "group": "g",
        "worker": "1",
        "topic": "orders",
        "partition": "0",
    }
    durations = metrics["sarameya_request_duration_seconds"]
    assert durations.unit == "s"
    of_request = {
        next(a.value.string_value for a in point.attributes if a.key == "request"): point
        for point in durations.histogram.data_points
    }
    assert of_request.keys() == meters.keys()
    for name, point in of_request.items():
        assert list(point.bucket_counts) == meters[name].counts
        assert list(point.explicit_bounds) == list(meters[name].bounds)
        assert (point.count, point.sum) == (meters[name].count, pytest.approx(meters[name].total))
        assert not point.HasField("min")


class RecordingExporter(MetricExporter):
    def __init__(self, *, fails: int = 0) -> None:
        super().__init__()
        self.exported: list[MetricsData] = []
        self.fails = fails

    def export(self, metrics_data: MetricsData, timeout_millis: float = 0, **kwargs: Any) -> MetricExportResult:
        self.exported.append(metrics_data)
        if len(self.exported) <= self.fails:
            raise ConnectionError("away")
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 0) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 0, **kwargs: Any) -> None:
        """Close nothing."""


async def inline(call: Callable[[], Any], *, abandon_on_cancel: bool) -> Any:
    return await run_inline(call)


async def test_metrics_are_exported_and_failures_reported_once(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("trio.to_thread.run_sync", inline)
    caplog.set_level("INFO", "sarameya")
    exporter = RecordingExporter(fails=2)
    group = ConsumerGroup(["localhost:9092"], "g")
    with trio.move_on_after(25):
        await export_metrics(GroupCollector.of(group), exporter, interval=10)
    assert len(exporter.exported) == 4
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "metrics are not exported, retrying: ConnectionError: away"),
        ("INFO", "metrics are exported again, after 2 failed attempts"),
    ]


@attrs.define
class Metered:
    """A group whose meters have counted a number of records."""

    meters: Meters

    @classmethod
    def of(cls, records: int) -> Metered:
        return cls(Meters(topics={"orders": TopicMeters(records=records)}))

    def status(self) -> GroupStatus:
        return GroupStatus(group="g", state="STABLE")


async def test_recreated_member_has_a_new_start_time_of_its_counters(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its counters would decrease, which a cumulative sum with one start time must not do."""
    monkeypatch.setattr("trio.to_thread.run_sync", inline)
    exporter, groups = RecordingExporter(), [Metered.of(7), Metered.of(9)]
    collector = GroupCollector(lambda: [MemberSnapshot.of(group, number) for number, group in enumerate(groups, 1)])
    began = trio.current_time()
    with trio.move_on_after(35):
        async with trio.open_nursery() as nursery:
            export = partial(export_metrics, collector, exporter, interval=10, wall_clock=trio.current_time)
            nursery.start_soon(export)
            await trio.sleep(15)
            groups[1] = Metered.of(1)
    points: dict[object, list[tuple[float, float]]] = {"1": [], "2": []}
    for data in exporter.exported:
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        [records] = [metric for metric in metrics if metric.name == "sarameya_records"]
        for point in records.data.data_points:
            assert isinstance(point, NumberDataPoint)
            assert point.attributes
            start = point.start_time_unix_nano / 1e9 - began
            points[point.attributes["worker"]].append((point.value, pytest.approx(start)))
    assert points == {"1": [(7, 0)] * 5, "2": [(9, 0), (9, 0), (1, 10), (1, 10), (1, 10)]}


class Lander(ConsumerGroupHandler):
    """A handler that lands messages in batches of five. The first attempt fails."""

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        held: list[int] = []
        fails = True
        async for message in claim:
            assert isinstance(message, Message)
            held.append(message.offset)
            while len(held) == 5:
                offsets = {"from_offset": held[0], "to_offset": held[-1] + 1}
                session.notify(LandingStarted(partition=ORDERS, **offsets))
                await trio.sleep(1)
                if fails:
                    session.notify(LandingFailed(partition=ORDERS, **offsets, cause="disk full"))
                else:
                    session.notify(Landed(partition=ORDERS, **offsets, rows=5, size_bytes=500, seconds=1.0))
                    held = []
                fails = False
            session.mark_message(message)


async def spans_of_flushes() -> list[ReadableSpan]:
    """Record the spans of a member that lands two batches, the first one in two attempts.

    Records 0 to 4 have a trace, records 1 and 2 the same one. The others have none.
    """
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = Tracing(provider)
    async with orders(1) as cluster, deadline() as nursery:
        for number in (0, 1, 1, 3, 4):
            cluster.produce("orders", 0, b"v", headers=[("traceparent", parent(number)), ("other", b"\xff")])
        cluster.produce_many("orders", 0, [(None, b"x")] * 5)
        member = await start_member(nursery, cluster, Lander(), observers=[tracing], interceptors=[tracing])
        await trio.sleep(30)
        await member.close()
    provider.shutdown()
    return list(exporter.get_finished_spans())


async def test_session_claim_and_landings_are_nested_spans(autojump_clock: MockClock) -> None:
    of_name: dict[str, list[ReadableSpan]] = {}
    for span in await spans_of_flushes():
        of_name.setdefault(span.name, []).append(span)
    (session,), (claim,), landings = of_name["session"], of_name["claim orders"], of_name["land orders"]
    assert session.parent is None
    assert claim.parent is not None
    assert claim.parent.span_id == session.context.span_id
    assert session.attributes is not None
    assert session.attributes["messaging.consumer.group.name"] == "g"
    failed, first, second = landings
    for landing in landings:
        assert landing.parent is not None
        assert landing.parent.span_id == claim.context.span_id
        assert landing.kind is SpanKind.CONSUMER
        assert landing.start_time is not None
        assert landing.end_time is not None
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "disk full")
    assert first.attributes is not None
    assert first.attributes["messaging.batch.message_count"] == 5
    assert first.attributes["messaging.destination.partition.id"] == "0"
    expected = [int(TRACE, 16) + number for number in (0, 1, 3, 4)]
    for landing in (failed, first):
        assert [link.context.trace_id for link in landing.links] == expected
    assert second.links == ()


def test_trace_context_is_read_from_the_headers_of_a_message() -> None:
    message = Message(
        topic="orders",
        partition=0,
        offset=0,
        timestamp=0,
        timestamp_type=TimestampType.CREATE_TIME,
        key=None,
        value=None,
        headers=(("traceparent", parent()),),
    )
    found = trace.get_current_span(context_of(message)).get_span_context()
    assert (f"{found.trace_id:032x}", found.is_remote) == (TRACE, True)
    none = trace.get_current_span(context_of(message.replace(headers=()))).get_span_context()
    assert not none.is_valid


@pytest.mark.parametrize("value", [b"", b"00", b"\xff\xfe", b"00-" + b"0" * 32 + b"-b7ad6b7169203331-01", None])
async def test_invalid_trace_header_gives_no_link(value: bytes | None, autojump_clock: MockClock) -> None:
    tracing = Tracing(TracerProvider())
    async with orders(1) as cluster, deadline() as nursery:
        cluster.produce("orders", 0, b"v", headers=[("traceparent", value)])
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, observers=[tracing], interceptors=[tracing])
        await handler.received(1)
        assert not tracing._contexts[ORDERS]
        await member.close()


async def test_number_of_links_of_a_span_is_limited(autojump_clock: MockClock) -> None:
    tracing = Tracing(TracerProvider())
    async with orders(1) as cluster, deadline() as nursery:
        for number in range(300):
            cluster.produce("orders", 0, b"v", headers=[("traceparent", parent(number))])
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, observers=[tracing], interceptors=[tracing])
        await handler.received(300)
        assert len(tracing._links(ORDERS, 0, 300)) == MOST_LINKS
        await member.close()
    assert tracing._contexts == {}


def test_environment_overrides_the_service_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resource_of({"service.name": "ours"}).attributes["service.name"] == "ours"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "theirs")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=pod-0")
    attributes = resource_of({"service.name": "ours", "service.instance.id": "1"}).attributes
    assert (attributes["service.name"], attributes["service.instance.id"]) == ("theirs", "pod-0")


def test_service_instance_id_differs_despite_equal_process_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each container has a process 1, and several containers may share a host name."""
    monkeypatch.setattr("os.getpid", lambda: 1)
    first, second = identity("g"), identity("g")
    assert first.pop("service.instance.id") != second.pop("service.instance.id")
    assert first == second
    assert (first["service.name"], first["process.pid"]) == ("sarameya g", 1)
    assert first["host.name"]
