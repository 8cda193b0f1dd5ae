"""The status page with a keyboard, a screen reader, light and dark colours, a wide screen and a phone."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe

from sarameya.embedded import EmbeddedCluster
from tests.integration.browser.chromium import Browser, Page
from tests.integration.browser.service import running

pytestmark = pytest.mark.integration

WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}

_CONTRASTS = """() => {
    const channels = colour => colour.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
        .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
    const ground = node => {
        for (; node; node = node.parentElement) {
            const colour = channels(getComputedStyle(node).backgroundColor);
            if (colour.length < 4 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !node.checkVisibility()) continue;
        const style = getComputedStyle(node);
        const of = node.namespaceURI.endsWith("svg") ? style.fill : style.color;
        const [a, b] = [light(channels(of)), light(ground(node))];
        found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), walker.currentNode.data.trim()]);
    }
    return found;
}"""

_FOCUSED = """() => {
    const node = document.activeElement;
    const by = document.getElementById(node.getAttribute("aria-labelledby"));
    const outlined = getComputedStyle(node).outlineStyle === "solid" && node.getBoundingClientRect().left >= 0;
    return [by ? by.firstChild.textContent.trim() : node.textContent, outlined];
}"""


@asynccontextmanager
async def busy_page(directory: Path, browser: Browser, **context: Any) -> AsyncIterator[Page]:
    """Open a page that shows everything: reasons, all colours of states, landings, the tree of a failure."""
    async with (
        EmbeddedCluster(topics={"orders": 5}) as cluster,
        running(
            directory, cluster, service='on_failure = "restart"\nrestart_backoff = 0.1\nstall_after = 2.0'
        ) as service,
        browser.page(service.url, **context) as page,
    ):
        await page.until_ready()
        cluster.produce("orders", 0, b"fail")
        await page.until_text("#events", "ExceptionGroup")
        await page.until_rows("members", lambda rows: rows[0]["State"] == "stable")
        for partition, command in enumerate([b"x", b"slow 600", b"pause", b"land 0.1", b"retry no room left"]):
            cluster.produce("orders", partition, command)
        await page.until_rows("landings", lambda rows: len(rows) == 2)
        await page.until_text("#reasons", "orders-4: no progress")
        await page.do(lambda p: p.locator("#events summary").first.click())
        yield page


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_page_has_enough_contrast_and_passes_axe(
    tmp_path: Path, browser: Browser, scheme: Literal["light", "dark"]
) -> None:
    async with busy_page(tmp_path, browser, color_scheme=scheme, viewport=WIDE) as page:
        ground = await page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        red = int(ground.removeprefix("rgb(").partition(",")[0])
        assert red > 200 if scheme == "light" else red < 60, ground
        contrasts = await page.evaluate(_CONTRASTS)
        assert len(contrasts) > 60
        assert [found for found in contrasts if found[0] < 4.5] == []
        found = await page.do(lambda p: Axe().run(p, options={"resultTypes": ["violations", "passes"]}))
        assert found.response["violations"] == [], found.generate_report()
        assert {"color-contrast", "svg-img-alt", "scrollable-region-focusable"} <= {
            rule["id"] for rule in found.response["passes"]
        }
        await page.do(lambda p: p.screenshot(path=tmp_path / f"{scheme}.png", full_page=True))
        await page.do(lambda p: p.set_viewport_size({"width": 390, "height": 844}))
        sizes = await page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
        assert sizes[0] <= sizes[1], "only tables scroll sideways"
        await page.do(lambda p: p.screenshot(path=tmp_path / f"{scheme}-narrow.png", full_page=True))


async def test_keyboard_reaches_everything_in_order(tmp_path: Path, browser: Browser) -> None:
    async with busy_page(tmp_path, browser, viewport=WIDE) as page:
        await page.do(lambda p: p.locator("h1").click())
        reached = []
        for _ in range(9):
            await page.do(lambda p: p.keyboard.press("Tab"))
            name, is_outlined = await page.evaluate(_FOCUSED)
            assert is_outlined, name
            reached.append(name)
        await page.do(lambda p: p.keyboard.press("Tab"))  # out of the page, and in again
        await page.do(lambda p: p.keyboard.press("Tab"))
        name, is_outlined = await page.evaluate(_FOCUSED)
        assert (name, is_outlined) == ("Skip to the partitions", True)
        assert reached == [
            "Partitions", "Members", "Landings", "Events", "causes",
            "metrics", "status.json", "readyz", "healthz",
        ]  # fmt: skip
        await page.do(lambda p: p.keyboard.press("Enter"))
        assert await page.evaluate("() => document.activeElement.id") == "partitions-heading"
        await page.do(lambda p: p.keyboard.press("Tab"))
        assert (await page.evaluate(_FOCUSED))[0] == "Partitions"
        # A status arrives each second; the focused element keeps the focus.
        await page.evaluate("() => { window.focused = document.activeElement; }")
        before = await page.rows("partitions")
        await page.until_rows("partitions", lambda rows: rows != before)
        assert await page.evaluate("() => document.activeElement === window.focused")


async def test_accessibility_tree_matches_the_page(tmp_path: Path, browser: Browser) -> None:
    async with busy_page(tmp_path, browser, viewport=PHONE) as page:
        for role, names in {
            "heading": ["Group orders-landing", "Why it is not ready", "Summary", "Partitions 5", "Members 1"],
            "region": ["Partitions 5", "Landings", "Events"],
            "columnheader": ["Lag", "High water mark", "Landed"],
            "status": [""],
        }.items():
            for name in names:
                found = await page.do(
                    lambda p, role=role, name=name: p.get_by_role(role, name=name or None).count()  # type: ignore[misc]
                )
                assert found >= 1, (role, name)
        statuses = await page.do(lambda p: p.get_by_role("status").count())
        assert statuses == 1, "a screen reader would speak any other status element each second"
        plot = await page.do(lambda p: p.locator("#plot-lag").aria_snapshot())
        # Two handlers have an uncommitted message each: the slow one, and the one that retries.
        assert re.search(r'img "Lag: 2 now, max \d"', plot), plot
        rows = await page.do(lambda p: p.get_by_role("row").filter(has=p.get_by_role("rowheader")).count())
        assert rows == 5 + 1 + 2
