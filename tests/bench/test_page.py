"""Page of benchmark results, rendered from their documents."""

from __future__ import annotations

import attrs
import pytest

from bench import BENCHES
from bench.page import PAGE, render_page, stored_documents
from tests.bench.common.kit import document, result, table

BLOCKS = "\n".join(f"# {name}\n<!-- generated: {name} -->\nold\n<!-- end -->\nprose\n" for name in BENCHES)


def test_page_equals_its_documents() -> None:
    page = PAGE.read_text(encoding="utf-8")

    rendered = render_page(page, stored_documents())
    assert rendered == page, f"{PAGE.name} differs from its documents; run: python -m bench.page"


def test_block_is_rendered_and_prose_is_kept() -> None:
    made = attrs.evolve(document(table(result("ours", 1e6, is_ours=True))), bench=BENCHES[0])
    page = render_page(BLOCKS, {BENCHES[0]: made})

    assert "| ours | 1,000 | 1.00 |" in page.split("prose")[0]
    assert page.count("Not measured yet.") == len(BENCHES) - 1
    assert page.count("prose") == len(BENCHES)
    assert "old" not in page


@pytest.mark.parametrize("page", ["no blocks", BLOCKS + "<!-- generated: more -->\n<!-- end -->"])
def test_page_with_other_blocks_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="blocks"):
        render_page(page, {})
