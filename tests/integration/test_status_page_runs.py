"""`sarameya run` with its pages, as real processes: one member, two in a process, workers. Warnings are errors."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families as parse

from sarameya.embedded import EmbeddedCluster
from tests.integration.browser.service import Service, running
from tests.integration.processes import is_running

pytestmark = pytest.mark.integration

MEMBERS = pytest.mark.parametrize(
    "arguments", [(), ("--workers", "2", "--in-process"), ("--workers", "2")], ids=["one", "in-process", "workers"]
)


async def until_ready(service: Service) -> Any:
    """Wait until the service is ready. Return its status."""
    while (await service.answer("/readyz"))[0] != 200:
        await trio.sleep(0.1)
    return await service.status()


async def until(service: Service, condition: Any) -> Any:
    while not condition(status := await service.status()):
        await trio.sleep(0.1)
    return status


@MEMBERS
async def test_status_and_metrics_cover_all_members(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    async with EmbeddedCluster(topics={"orders": 4}) as cluster, running(tmp_path, cluster, *arguments) as service:
        with trio.fail_after(40):
            for partition in range(4):
                cluster.produce_many("orders", partition, [(None, b"x" * 10)] * (10 + partition))
            count = 2 if arguments else 1
            await until_ready(service)

            def is_read(status: Any) -> bool:
                places = {row["partition"]: (row["position"], row["committed"]) for row in status["partitions"]}
                return places == {partition: (10 + partition, 10 + partition) for partition in range(4)}

            status = await until(service, lambda status: is_read(status) and len(status["members"]) == count)
            assert {member["state"] for member in status["members"]} == {"stable"}
            members = {member.member_id for member in cluster.describe_group("orders-landing").members}
            assert {member["member_id"] for member in status["members"]} == members
            code, text = await service.answer("/metrics")
            samples = [sample for family in parse(text) for sample in family.samples]
            assert code == 200
            records = {s.labels["worker"]: s.value for s in samples if s.name == "sarameya_records_total"}
            assert (sum(records.values()), len(records)) == (46, count)
            assert (await service.answer("/healthz")) == (200, "alive\n")

            pids = {member["pid"] for member in status["members"]}
            host, port = service.url.removeprefix("http://").split(":")
            async with await trio.open_tcp_stream(host, int(port)) as stream:
                await stream.send_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert await stream.receive_some()
                started = trio.current_time()
                service.process.send_signal(signal.SIGINT)
                assert await service.process.wait() == 0
                assert trio.current_time() - started < 5
            assert not any(map(is_running, pids))
            log = [json.loads(line) for line in service.log.read_text().splitlines()]
            assert not [line for line in log if line["level"] not in ("INFO", "WARNING") or "traceback" in line]
            assert cluster.describe_group("orders-landing").members == ()


@MEMBERS
async def test_draining_service_is_not_ready(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    async with (
        EmbeddedCluster(topics={"orders": 2}) as cluster,
        running(tmp_path, cluster, *arguments, config="claim_grace = 5.0\nclose_timeout = 9.0") as service,
    ):
        with trio.fail_after(40):
            await until_ready(service)
            cluster.produce("orders", 0, b"slow 4")
            await until(service, lambda status: any(row["activity"] == "in handler" for row in status["partitions"]))
            service.process.send_signal(signal.SIGTERM)
            while (found := await service.answer("/readyz"))[0] == 200:
                await trio.sleep(0.05)
            assert found[1].startswith("not ready\nstopping: SIGTERM\n")
            status = await until(
                service, lambda status: any(row["activity"] == "giving up" for row in status["partitions"])
            )
            assert status["stopping"] == "SIGTERM"
            assert (await service.answer("/healthz")) == (200, "alive\n")
            assert await service.process.wait() == 0
            assert cluster.committed("orders-landing")
            assert "Traceback" not in service.log.read_text()


async def test_used_address_is_reported_in_one_line(tmp_path: Path) -> None:
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        with socket.create_server(("127.0.0.1", 0)) as used:
            address = f"127.0.0.1:{used.getsockname()[1]}"
            with pytest.raises(AssertionError):
                async with running(tmp_path, cluster, "--http", address):
                    pytest.fail("it runs")
    log = (tmp_path / "log").read_text()
    assert f"service.http = '{address}': cannot be listened at: Address already in use" in log
    assert "Traceback" not in log
    assert len(log.splitlines()) == 1, log
