"""Short-lived states of partitions, prolonged by faults of the embedded broker, and a lag that rises and falls."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sarameya import TopicPartition
from sarameya.embedded import EmbeddedCluster
from sarameya.protocol.versions import Api
from tests.integration.browser.chromium import Browser, Page
from tests.integration.browser.service import running

pytestmark = pytest.mark.integration

FOREVER = 600.0
"""Delay in seconds of a response that never arrives."""

_HIGHEST = """() => Math.min(...document.querySelector("#plot-lag .line").getAttribute("d")
    .match(/,[\\d.]+/g).map(y => Number(y.slice(1))))"""
_TOP = """() => Number(document.querySelector("#plot-lag .grid.most").getAttribute("y1"))"""


async def until_state(page: Page, partition: int, pattern: str) -> None:
    def has_state(rows: list[dict[str, str]]) -> bool:
        states = {row["Partition"]: row["State"] for row in rows}
        return re.fullmatch(pattern, states.get(str(partition), "")) is not None

    await page.until_rows("partitions", has_state)


async def test_state_waiting_for_a_response_is_shown(tmp_path: Path, browser: Browser) -> None:
    async with EmbeddedCluster(topics={"orders": 3}) as cluster:
        cluster.produce_many("orders", 2, [(None, b"x")] * 3)
        cluster.delay_next(Api.OFFSET_FETCH, FOREVER)
        config = "fetch_buffer_bytes = 8_388_608"
        async with running(tmp_path, cluster, config=config) as service, browser.page(service.url) as page:
            await until_state(page, 0, "starting")
            assert {row["State"] for row in await page.rows("partitions")} == {"starting"}
            assert {row["Lag"] for row in await page.rows("partitions")} == {"–"}
            cluster.disconnect()  # the request is retried on another connection
            await page.until_ready()
            await until_state(page, 0, r"fetching for \d+ s")
            # Its handler holds the partition's own share of the byte budget, and most of what all partitions share.
            cluster.produce("orders", 1, b"hold 6_000_000")
            await until_state(page, 1, r"no room for \d+ s")
            await page.until_rows("partitions", lambda rows: rows[1]["Committed"] == "1")
            cluster.delay_next(Api.OFFSET_COMMIT, FOREVER, half="request")
            cluster.produce("orders", 0, b"x")
            await until_state(page, 0, r"committing for \d+ s")
            (row, *_) = await page.rows("partitions")
            columns = ("Position", "High water mark", "Lag", "Position lag", "Committed")
            assert [row[column] for column in columns] == ["1", "1", "1", "0", "0"]
            assert cluster.committed("orders-landing")[TopicPartition("orders", 0)].offset == 0
            cluster.delay_next(Api.LIST_OFFSETS, FOREVER, None)
            cluster.truncate("orders", 2, 0)
            await until_state(page, 2, r"resetting for \d+ s: the position is not in the log")


async def test_lag_is_plotted_as_it_changes(tmp_path: Path, browser: Browser) -> None:
    async with (
        EmbeddedCluster(topics={"orders": 2}) as cluster,
        running(tmp_path, cluster) as service,
        browser.page(service.url) as page,
    ):
        await page.until_ready()
        await page.until_text("#total-lag", "0")

        async def until_plotted(label: str) -> None:
            await page.do(lambda p: p.locator(f"#plot-lag[aria-label='{label}']").wait_for())

        # In one batch, since a partition may not be fetched again while its handler is busy.
        cluster.produce_many("orders", 1, [(None, b"until told"), *[(None, b"x")] * 1233])
        await until_plotted("Lag: 1,234 now, max 1,234")
        assert await page.text("#total-lag") == "1,234"
        assert await page.evaluate(_HIGHEST) == await page.evaluate(_TOP)
        assert cluster.log("orders", 1).high_watermark == 1234
        (tmp_path / "told").touch()
        await until_plotted("Lag: 0 now, max 1,234")
        assert await page.text("#total-lag") == "0"
