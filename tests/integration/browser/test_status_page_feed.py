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
    """While the page goes on: what it asks for passes through Playwright, which does nothing between calls."""
    with trio.fail_after(seconds):
        while not condition():
            await page.evaluate("() => new Promise(done => setTimeout(done, 50))")


async def until_gone(page: Page, selector: str) -> None:
    await page.do(lambda p: p.locator(selector).wait_for(state="hidden"))


async def test_frozen_service_is_shown_and_leaves_a_gap(tmp_path: Path, browser: Browser) -> None:
    async with (
        EmbeddedCluster(topics={"orders": 1}) as cluster,
        running(tmp_path, cluster) as service,
        browser.page(service.url) as page,
    ):
        await page.until_ready()
        assert await page.do(lambda p: p.locator("#connection").is_hidden())
        service.process.send_signal(signal.SIGSTOP)
        try:
            await page.until_text("#connection", "nothing heard for 9 s")
            assert await page.do(lambda p: p.get_by_role("alert").inner_text()) == (
                "The service does not answer; what is shown is old:"
            )
        finally:
            service.process.send_signal(signal.SIGCONT)
        await until_gone(page, "#connection")
        with trio.fail_after(15):
            while len(await page.evaluate(_LINES)) != 2:
                await trio.sleep(0.1)


async def test_refused_page_reconnects_and_plots_what_it_missed(tmp_path: Path, browser: Browser) -> None:
    async with (
        EmbeddedCluster(topics={"orders": 1}) as cluster,
        running(tmp_path, cluster) as service,
        relay(service.url) as between,
        browser.page(between.url) as page,
    ):
        await page.until_ready()
        between.refused = frozenset({"/events", "/status.json"})
        between.cut()
        await page.until_text("#connection", "nothing heard for 10 s")
        assert between.requested.count("/events") > 2, "it is asked again, although it was refused"
        between.refused = frozenset()
        await until_gone(page, "#connection")
        (points,) = await page.evaluate(_LINES)
        assert points > 8


async def test_history_is_loaded_after_a_failed_attempt(tmp_path: Path, browser: Browser) -> None:
    async with (
        EmbeddedCluster(topics={"orders": 1}) as cluster,
        running(tmp_path, cluster) as service,
        relay(service.url) as between,
    ):
        between.refused = frozenset({"/status.json"})
        async with browser.page(between.url) as page:
            await page.until_ready()
            await until(page, lambda: between.requested.count("/status.json") >= 2)
            between.refused = frozenset()
            asked = between.requested.count("/status.json")
            await until(page, lambda: between.requested.count("/status.json") > asked)
            assert await page.do(lambda p: p.locator("#connection").is_hidden())


async def test_hidden_tab_holds_no_connection(tmp_path: Path, browser: Browser) -> None:
    async with (
        EmbeddedCluster(topics={"orders": 1}) as cluster,
        running(tmp_path, cluster) as service,
        relay(service.url) as between,
        browser.page(between.url) as page,
    ):
        await page.until_ready()
        assert between.open_for("/events") == 1
        await page.evaluate(_HIDE, True)
        await until(page, lambda: between.open_for("/events") == 0)
        assert await page.do(lambda p: p.locator("#connection").is_hidden())
        cluster.produce_many("orders", 0, [(None, b"x")] * 7)
        await page.evaluate(_HIDE, False)
        await page.until_rows("partitions", lambda rows: [row["Position"] for row in rows] == ["7"])
        assert between.open_for("/events") == 1


async def test_restarted_service_is_followed(tmp_path: Path, browser: Browser) -> None:
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        cluster.produce_many("orders", 0, [(None, b"x")] * 3)
        async with running(tmp_path / "one", cluster) as first, relay(first.url) as between:
            async with browser.page(between.url) as page:
                (before,) = await page.until_rows("members", lambda rows: [row["State"] for row in rows] == ["stable"])
                first.process.send_signal(signal.SIGTERM)
                with trio.fail_after(15):
                    assert await first.process.wait() == 0
                await page.until_text("#connection", "does not answer")
                async with running(tmp_path / "two", cluster) as second:
                    between.target = second.url
                    pid = str(second.process.pid)
                    (after,) = await page.until_rows(
                        "members",
                        lambda rows: [(row["State"], row["Process"]) for row in rows] == [("stable", pid)],
                        30,
                    )
                    assert after["Member"] != before["Member"]
                    await until_gone(page, "#connection")
                    await page.until_ready()
                    assert re.fullmatch(r"for \d+ s", await page.text("#since"))
                    generation = cluster.describe_group("orders-landing").generation
                    assert await page.text("#generation") == f"generation {generation}"
