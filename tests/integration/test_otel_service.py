"""`sarameya run` with `[service] otel`: the data that a collector receives, and a service without a collector."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import trio

from sarameya.embedded import EmbeddedCluster
from tests.integration.test_run_command import app_file, sarameya
from tests.telemetry.otlp import collector_listening

pytestmark = pytest.mark.integration

OTEL = "[service]\notel = true"


@pytest.mark.parametrize("workers", [1, 2])
async def test_metrics_and_spans_of_each_process_reach_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    with collector_listening() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        async with EmbeddedCluster(topics={"orders": 2}) as cluster:
            cluster.produce("orders", 0, b"1")
            cluster.produce("orders", 1, b"2")
            path = app_file(tmp_path, cluster.bootstrap_servers, extra=OTEL)
            async with sarameya(tmp_path, "run", path, "--workers", str(workers)) as service:
                await service.until(lambda running: len(running.stdout) == 2)
                await service.until(lambda running: running.stderr.count('"event": "SessionStarted"') >= workers)
                service.process.send_signal(signal.SIGTERM)
                assert await service.process.wait() == 0, service.stderr
    instances, records = set[str](), dict[str, int]()
    for request in received.metrics:
        (of_resource,) = request.resource_metrics
        attributes = {a.key: a.value.string_value for a in of_resource.resource.attributes}
        assert attributes["service.name"] == "sarameya g"
        instances.add(attributes["service.instance.id"])
        for metric in of_resource.scope_metrics[0].metrics:
            if metric.name == "sarameya_records":
                records[attributes["service.instance.id"]] = sum(point.as_int for point in metric.sum.data_points)
    assert len(instances) == workers
    assert sum(records.values()) == 2, "the last records are exported when the service stops"
    spans = [s for request in received.traces for r in request.resource_spans for x in r.scope_spans for s in x.spans]
    names = [span.name for span in spans]
    assert names.count("claim orders") >= 2
    assert names.count("session") >= workers


async def test_silent_collector_delays_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        cluster.produce("orders", 0, b"1")
        path = app_file(tmp_path, cluster.bootstrap_servers, extra=OTEL)
        async with sarameya(tmp_path, "run", path) as service:
            await service.until(lambda running: running.stdout == ["took 1"])
            # Spans are exported at the end; an export of metrics has failed already.
            await service.until(lambda running: "metrics are not exported" in running.stderr)
            signalled = trio.current_time()
            service.process.send_signal(signal.SIGTERM)
            assert await service.process.wait() == 0, service.stderr
            assert trio.current_time() - signalled < 5
            assert "Traceback" not in service.stderr
    warned = [line for line in service.log if line["level"] != "INFO"]
    assert {line["logger"] for line in warned} == {"sarameya"}
    what = sorted(line["message"].partition(", ")[0] for line in warned)
    assert what == ["metrics are not exported", "spans are not exported"], (
        "one line each, although metrics were exported twice"
    )
    assert all("Connection refused" in line["message"] for line in warned)


async def test_recovered_collector_is_logged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with collector_listening() as received:
        received.is_broken = True
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        async with EmbeddedCluster(topics={"orders": 1}) as cluster:
            path = app_file(tmp_path, cluster.bootstrap_servers, extra=OTEL)
            async with sarameya(tmp_path, "run", path) as service:
                await service.until(lambda running: "metrics are not exported" in running.stderr)
                received.is_broken = False
                service.process.send_signal(signal.SIGTERM)
                assert await service.process.wait() == 0, service.stderr
    messages = [line["message"] for line in service.log if "metrics" in line["message"]]
    assert len(messages) == 2, messages
    assert messages[1].startswith("metrics are exported again, after ")
