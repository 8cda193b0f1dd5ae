"""`sarameya dashboard` with a service, a member without an endpoint, and an endpoint without a service."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from sarameya.embedded import EmbeddedCluster
from tests.group.kit import Recorder, start_member
from tests.integration.test_run_command import Running, app_file, sarameya

pytestmark = pytest.mark.integration


async def url_of(service: Running) -> str:
    """Return the URL that a service logs, and a dashboard prints."""
    pattern = re.compile(r"http://127\.0\.0\.1:\d+")

    def found(running: Running) -> list[str]:
        return pattern.findall("\n".join([*running.stdout, running.stderr]))

    await service.until(lambda running: bool(found(running)))
    (url,) = found(service)
    return url


async def until(url: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return the status document as soon as it meets the condition."""
    while True:
        snapshot: dict[str, Any] = await trio.to_thread.run_sync(_document, url)
        if condition(snapshot):
            return snapshot
        await trio.sleep(0.2)


def _document(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}/status.json", timeout=5) as answer:
        snapshot: dict[str, Any] = json.loads(answer.read())
    return snapshot


async def test_group_is_shown_on_one_page(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with EmbeddedCluster(topics={"orders": 3}) as cluster, trio.open_nursery() as nursery:
            for partition in range(3):
                cluster.produce_many("orders", partition, [(None, b"1")] * 4)
            for name in ("one", "two", "dashboard"):
                (tmp_path / name).mkdir()
            path = app_file(
                tmp_path / "one", cluster.bootstrap_servers, extra='[service]\nhttp = "127.0.0.1:0"\nworkers = 1'
            )
            async with sarameya(tmp_path / "one", "run", path, deadline=60) as service:
                member_url = await url_of(service)
                silent = await start_member(nursery, cluster, Recorder())
                arguments = ["--bootstrap", cluster.bootstrap_servers[0], "--group", "g", "--http", "127.0.0.1:0"]
                urls = ["--member", member_url, "--member", "http://127.0.0.1:9"]
                async with sarameya(tmp_path / "dashboard", "dashboard", *arguments, *urls, deadline=60) as dashboard:
                    url = await url_of(dashboard)

                    def is_settled(snapshot: dict[str, Any]) -> bool:
                        rows = snapshot.get("partitions", [])
                        is_read = [(row["committed"], row["lag"]) for row in rows] == [(4, 0)] * 3
                        states = [row["state"] for row in snapshot["members"]]
                        return is_read and sorted(states) == ["stable", "stable, by Kafka"]

                    snapshot = await until(url, is_settled)
                    host = member_url.removeprefix("http://")
                    truth = {member.member_id: member for member in cluster.describe_group("g").members}
                    assert {row["member_id"] for row in snapshot["members"]} == truth.keys()
                    own, other = sorted(snapshot["members"], key=lambda row: row["host"] != host)
                    assert (own["host"], own["state"]) == (host, "stable")
                    assert (other["host"], other["state"]) == ("127.0.0.1", "stable, by Kafka")
                    by_host: dict[str, int] = {}
                    for row in snapshot["partitions"]:
                        by_host[row["host"]] = by_host.get(row["host"], 0) + 1
                        assert (row["high_water_mark"], row["lag"]) == (4, 0)
                    assert set(by_host) == {host, "127.0.0.1"}
                    assert sum(by_host.values()) == 3
                    (reason,) = snapshot["reasons"]
                    assert reason.startswith("127.0.0.1:9: no status: its endpoint does not answer")
                    service.process.send_signal(signal.SIGTERM)
                    assert await service.process.wait() == 0
                    snapshot = await until(url, lambda new: len(new["members"]) == 1 and len(new["reasons"]) == 2)
                    assert {row["host"] for row in snapshot["partitions"]} == {"127.0.0.1"}
                    await silent.close()
                    snapshot = await until(url, lambda new: not new["members"])
                    assert {row["activity"] for row in snapshot["partitions"]} == {"not assigned"}
                    assert "the group has no members: it is Empty" in snapshot["reasons"]
                    dashboard.process.send_signal(signal.SIGINT)
                    assert await dashboard.process.wait() == 0, dashboard.stderr
                    assert "Traceback" not in dashboard.stderr
