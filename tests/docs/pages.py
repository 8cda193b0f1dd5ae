"""The pages of docs/, the README, and what code stands in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

PAGES = {
    path.relative_to(ROOT).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
}
"""`README`, `docs/fetching` ...: the texts of all pages, but those of the reference, which have none but directives."""


def page(name: str) -> str:
    """The text of docs/<name>.md."""
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The code blocks of a page that are said to be in this language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
