"""A stuck handler as an operator sees it: the page, `/readyz` and the log of a service with two workers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import trio

from sarameya.embedded import EmbeddedCluster
from tests.integration.browser.chromium import Browser
from tests.integration.browser.service import running

pytestmark = pytest.mark.integration


async def test_stuck_handler_is_named_with_offset_and_stack(tmp_path: Path, browser: Browser) -> None:
    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        cluster.produce_many("orders", 1, [(None, b"x")] * 7)
        release = tmp_path / "go-on"
        async with (
            running(tmp_path, cluster, "--workers", "2") as service,
            browser.page(service.url) as page,
        ):
            await page.until_ready(60)
            cluster.produce("orders", 1, f"until {release}".encode())
            cluster.produce_many("orders", 1, [(None, b"x")] * 7)
            named = r"handler has held orders-1 offset 7 for \d+ s"
            (row, _) = await page.until_rows("partitions", lambda rows: re.search(named, rows[0]["State"]), 90)
            assert row["Partition"] == "1"
            assert row["State"].startswith("backpressured for ")
            await page.until_text("#explained li", "handler has held orders-1 offset 7 for")
            await page.until_text("#events > li >> nth=0", "handler has held orders-1 offset 7 for 3")
            await page.do(lambda found: found.locator("#events summary").first.click())
            await page.until_text("#events details pre", "consume_claim")
            status, text = await service.answer("/readyz")
            assert status == 200, "a slow handler does not make the service unready"
            assert re.search(named + "; its stack:\n", text), text
            assert "await trio.sleep(0.05)" in text
            release.touch()
            await page.until_rows("partitions", lambda rows: not re.search(named, "".join(r["State"] for r in rows)))
            with trio.fail_after(90):
                while len(reported := [line for line in logged(service.log) if "Handler" in line.get("event", "")]) < 2:
                    await trio.sleep(0.5)
    assert [(line["event"], line["level"], line["offset"]) for line in reported] == [
        ("HandlerOverdue", "WARNING", 7),
        ("HandlerReturned", "INFO", 7),
    ]
    assert reported[0]["worker"] == reported[1]["worker"]
    assert "consume_claim" in reported[0]["stack"]


def logged(log: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
