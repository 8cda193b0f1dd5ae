"""Pages of docs/, the README and other pages for users, and their code blocks.

The parser is the one that renders the pages (`docs/conf.py`), so every block that readers see as code is found: fenced
or indented, with attributes after the language, within a list.
"""

from __future__ import annotations

from pathlib import Path

import attrs
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
INDENTED = "indented"
"""Language of indented blocks, which have no fence with a language."""

_MARKDOWN = MarkdownIt("commonmark").enable("table")

PAGES = {
    path.relative_to(ROOT).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for path in sorted(ROOT.glob(pattern))
}
"""Texts of all pages, by name: `README`, `docs/fetching`, `docs/reference/claims` ..."""


@attrs.frozen
class Block:
    """A block of code on a page."""

    page: str
    line: int
    language: str
    """Language of the fence, or ""."""
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line} ({self.language or 'bare'})"


def page(name: str) -> str:
    """Return the text of docs/<name>.md."""
    return PAGES[f"docs/{name}"]


def code(text: str, name: str = "") -> list[Block]:
    """Return all code blocks of a page, in order, without directives of the generator such as `{toctree}`."""
    found = []
    for token in _MARKDOWN.parse(text):
        if token.type in ("fence", "code_block") and not token.info.startswith("{"):
            language = INDENTED if token.type == "code_block" else token.info.partition(" ")[0]
            found.append(Block(name, token.map[0] + 1 if token.map else 0, language, token.content))
    return found


def blocks(text: str, language: str) -> list[str]:
    """Return the texts of a page's code blocks in this language, in order."""
    return [block.text for block in code(text) if block.language == language]


def inline(text: str) -> list[str]:
    """Return the texts between backticks on a page."""
    tokens = [child for token in _MARKDOWN.parse(text) for child in token.children or ()]
    return [" ".join(token.content.split()) for token in tokens if token.type == "code_inline"]
