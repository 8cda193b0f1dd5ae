"""`sarameya run` with `[service] otel`, as a collector hears it; and where there is no collector."""

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
        about = {a.key: a.value.string_value for a in of_resource.resource.attributes}
        assert about["service.name"] == "sarameya g"
        instances.add(about["service.instance.id"])
        for metric in of_resource.scope_metrics[0].metrics:
            if metric.name == "sarameya_records":
                records[about["service.instance.id"]] = sum(point.as_int for point in metric.sum.data_points)
    assert len(instances) == workers
    assert sum(records.values()) == 2, "the last ones are sent when it stops"
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
            # Spans wait for the end; metrics have been tried.
            await service.until(lambda running: "metrics are not exported" in running.stderr)
            asked = trio.current_time()
            service.process.send_signal(signal.SIGTERM)
            assert await service.process.wait() == 0, service.stderr
            assert trio.current_time() - asked < 5
            assert "Traceback" not in service.stderr
    warned = [line for line in service.log if line["level"] != "INFO"]
    assert {line["logger"] for line in warned} == {"sarameya"}
    what = sorted(line["message"].partition(", ")[0] for line in warned)
    assert what == ["metrics are not exported", "spans are not exported"], "though metrics are tried twice"
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
    told = [line["message"] for line in service.log if "metrics" in line["message"]]
    assert len(told) == 2, told
    assert told[1].startswith("metrics are exported again, after ")
