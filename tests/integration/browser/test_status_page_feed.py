"""The status page while its feed stops, is refused or restarts, and in a hidden tab."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from sarameya.embedded import EmbeddedCluster
from tests.integration.browser.chromium import Browser, Page
from tests.integration.browser.relay import relay
from tests.integration.browser.service import running

pytestmark = pytest.mark.integration

_HIDE = """hidden => {
    Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}"""
_LINES = """() => document.querySelector("#plot-records .line").getAttribute("d").split("M").slice(1)
    .map(stretch => stretch.split("L").length)"""


async def until(page: Page, condition: Callable[[], bool], seconds: float = 15.0) -> None:
    """Wait for a condition. The page's requests pass through Playwright, which forwards them only during a call."""
    with trio.fail_after(seconds):
        while not condition():
            await page.evaluate("() => new Promise(done => setTimeout(done, 50))")


async def until_hidden(page: Page, selector: str) -> None:
    await page.do(lambda p: p.locator(selector).wait_for(state="hidden"))


async def test_frozen_service_is_shown_and_leaves_a_gap_in_the_plot(tmp_path: Path, browser: Browser) -> None:
    async with (
        EmbeddedCluster(topics={"orders": 1}) as cluster,
        running(tmp_path, cluster) as service,
        browser.page(service.url) as page,
    ):
        await page.until_ready()
        assert await page.do(lambda p: p.locator("#connection").is_hidden())
        service.process.send_signal(signal.SIGSTOP)
        try:
            await page.until_text("#connection", "no update for 9 s")
            assert await page.do(lambda p: p.get_by_role("alert").inner_text()) == (
                "The service does not respond; this page is out of date:"
            )
        finally:
            service.process.send_signal(signal.SIGCONT)
        await until_hidden(page, "#connection")
        with trio.fail_after(15):
            while len(await page.evaluate(_LINES)) != 2:
                await trio.sleep(0.1)


async def test_refused_page_reconnects_and_plots_missed_points(tmp_path: Path, browser: Browser) -> None:
    async with (
        EmbeddedCluster(topics={"orders": 1}) as cluster,
        running(tmp_path, cluster) as service,
        relay(service.url) as proxy,
        browser.page(proxy.url) as page,
    ):
        await page.until_ready()
        proxy.refused = frozenset({"/events", "/status.json"})
        proxy.cut()
        await page.until_text("#connection", "no update for 10 s")
        assert proxy.requested.count("/events") > 2, "the page retries after a refused request"
        proxy.refused = frozenset()
        await until_hidden(page, "#connection")
        (points,) = await page.evaluate(_LINES)
        assert points > 8


async def test_history_is_loaded_after_a_failed_attempt(tmp_path: Path, browser: Browser) -> None:
    async with (
        EmbeddedCluster(topics={"orders": 1}) as cluster,
        running(tmp_path, cluster) as service,
        relay(service.url) as proxy,
    ):
        proxy.refused = frozenset({"/status.json"})
        async with browser.page(proxy.url) as page:
            await page.until_ready()
            await until(page, lambda: proxy.requested.count("/status.json") >= 2)
            proxy.refused = frozenset()
            requests_before = proxy.requested.count("/status.json")
            await until(page, lambda: proxy.requested.count("/status.json") > requests_before)
            assert await page.do(lambda p: p.locator("#connection").is_hidden())


async def test_hidden_tab_holds_no_connection(tmp_path: Path, browser: Browser) -> None:
    async with (
        EmbeddedCluster(topics={"orders": 1}) as cluster,
        running(tmp_path, cluster) as service,
        relay(service.url) as proxy,
        browser.page(proxy.url) as page,
    ):
        await page.until_ready()
        assert proxy.open_for("/events") == 1
        await page.evaluate(_HIDE, True)
        await until(page, lambda: proxy.open_for("/events") == 0)
        assert await page.do(lambda p: p.locator("#connection").is_hidden())
        cluster.produce_many("orders", 0, [(None, b"x")] * 7)
        await page.evaluate(_HIDE, False)
        await page.until_rows("partitions", lambda rows: [row["Position"] for row in rows] == ["7"])
        assert proxy.open_for("/events") == 1


async def test_page_follows_a_restarted_service(tmp_path: Path, browser: Browser) -> None:
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        cluster.produce_many("orders", 0, [(None, b"x")] * 3)
        async with running(tmp_path / "one", cluster) as first, relay(first.url) as proxy:
            async with browser.page(proxy.url) as page:
                (before,) = await page.until_rows("members", lambda rows: [row["State"] for row in rows] == ["stable"])
                first.process.send_signal(signal.SIGTERM)
                with trio.fail_after(15):
                    assert await first.process.wait() == 0
                await page.until_text("#connection", "does not respond")
                async with running(tmp_path / "two", cluster) as second:
                    proxy.target = second.url
                    pid = str(second.process.pid)
                    (after,) = await page.until_rows(
                        "members",
                        lambda rows: [(row["State"], row["Process"]) for row in rows] == [("stable", pid)],
                        30,
                    )
                    assert after["Member"] != before["Member"]
                    await until_hidden(page, "#connection")
                    await page.until_ready()
                    assert re.fullmatch(r"for \d+ s", await page.text("#since"))
                    generation = cluster.describe_group("orders-landing").generation
                    assert await page.text("#generation") == f"generation {generation}"
