"""docs/worked-example.md shows the programs of examples/orders unchanged.

`tests/integration/test_orders_example.py` runs them, and the commands of the page.
"""

from __future__ import annotations

from pathlib import Path

from tests.docs.pages import ROOT, blocks, page

PAGE = page("worked-example")
ORDERS = ROOT / "examples" / "orders"


def text(name: str) -> str:
    return Path(ORDERS, name).read_text(encoding="utf-8")


def test_page_has_the_programs_that_are_tested() -> None:
    assert [block.strip() for block in blocks(PAGE, "python")] == [
        text(name).strip() for name in ("on_trio.py", "on_asyncio.py", "in_threads.py")
    ]
    assert [block.strip() for block in blocks(PAGE, "toml")] == [text("in_threads.toml").strip()]
    tested = (ROOT / "tests" / "integration" / "test_orders_example.py").read_text(encoding="utf-8")
    for word in ("letters", "redrive", "orders.dead", "--error-class", "HTTPStatusError", "--execute"):
        assert word in PAGE
        assert f'"{word}"' in tested


def test_programs_have_at_most_60_lines_of_code() -> None:
    for name in ("on_trio.py", "on_asyncio.py", "in_threads.py"):
        assert len([line for line in text(name).splitlines() if line.strip()]) <= 60
