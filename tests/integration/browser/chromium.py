"""A headless Chromium for tests on trio. Playwright's calls block, so they run in the browser's own thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

import attrs
import trio
from playwright import sync_api

R = TypeVar("R")

_ROWS = """id => {
    const table = document.getElementById(id);
    const heads = [...table.tHead.rows[0].cells].map(cell => cell.innerText);
    return [...table.tBodies[0].rows].map(row =>
        Object.fromEntries([...row.cells].map((cell, n) => [heads[n], cell.textContent])));
}"""


class Browser:
    """A browser, which all tests share."""

    def __init__(self, executor: ThreadPoolExecutor, chromium: sync_api.Browser) -> None:
        self._executor = executor
        self._chromium = chromium

    @asynccontextmanager
    async def page(self, url: str, **context: Any) -> AsyncIterator[Page]:
        """Open a page in its own profile. The page must request nothing from other hosts and log no error."""
        foreign: list[str] = []
        errors: list[str] = []

        def route(route: sync_api.Route) -> None:
            requested = urlsplit(route.request.url)
            if requested.scheme != "data" and requested.netloc != urlsplit(url).netloc:
                foreign.append(route.request.url)
                route.abort()
            else:
                route.continue_()

        def open_page() -> sync_api.Page:
            page = self._chromium.new_context(**context).new_page()
            page.set_default_timeout(10_000)
            page.context.route("**/*", route)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(url)
            return page

        opened = await self._do(open_page)
        try:
            yield Page(opened, self._do)
        finally:
            with trio.CancelScope(shield=True):
                await self._do(opened.context.close)
        assert (foreign, errors) == ([], [])

    async def _do(self, call: Callable[[], R]) -> R:
        return await trio.to_thread.run_sync(lambda: self._executor.submit(call).result())


@attrs.frozen
class Page:
    """An open page."""

    page: sync_api.Page
    _do: Callable[[Callable[[], Any]], Any]

    async def do(self, call: Callable[[sync_api.Page], R]) -> R:
        """Call a function with Playwright's page in the browser's thread, and return its result."""
        done: R = await self._do(lambda: call(self.page))
        return done

    async def evaluate(self, script: str, argument: Any = None) -> Any:
        return await self.do(lambda page: page.evaluate(script, argument))

    async def rows(self, table: str) -> list[dict[str, str]]:
        """Return the rows of a table's body: column heading -> text of the cell."""
        found: list[dict[str, str]] = await self.evaluate(_ROWS, table)
        return found

    async def text(self, selector: str) -> str:
        return await self.do(lambda page: page.locator(selector).inner_text())

    async def until_text(self, selector: str, text: str, seconds: float = 15.0) -> None:
        """Wait until the element contains the text."""
        expect = sync_api.expect
        await self.do(lambda page: expect(page.locator(selector)).to_contain_text(text, timeout=seconds * 1000))

    async def until_ready(self, seconds: float = 15.0) -> None:
        """Wait until the page shows exactly "ready"; "not ready" does not count."""
        expect = sync_api.expect
        await self.do(lambda page: expect(page.locator("#ready")).to_have_text("ready", timeout=seconds * 1000))

    async def until_rows(
        self, table: str, condition: Callable[[list[dict[str, str]]], bool], seconds: float = 15.0
    ) -> list[dict[str, str]]:
        """Wait until `condition(rows)` is true, and return the rows. An IndexError in it counts as false."""
        rows: list[dict[str, str]] = []
        with trio.move_on_after(seconds):
            while True:
                rows = await self.rows(table)
                with suppress(IndexError):
                    if condition(rows):
                        return rows
                await trio.sleep(0.1)
        raise AssertionError(f"the condition on {table} is still false after {seconds:.0f} s: {rows}")


@contextmanager
def chromium(executable: str) -> Iterator[Browser]:
    with ThreadPoolExecutor(max_workers=1) as executor:

        def start() -> tuple[sync_api.Playwright, sync_api.Browser]:
            playwright = sync_api.sync_playwright().start()
            return playwright, playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])

        playwright, browser = executor.submit(start).result()
        try:
            yield Browser(executor, browser)
        finally:
            executor.submit(browser.close).result()
            executor.submit(playwright.stop).result()
