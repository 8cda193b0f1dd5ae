"""The pages of docs/, the README and the others that readers are sent to, and what code stands in them.

They are read by the parser that makes pages of them (`docs/conf.py`), so that whatever a reader sees as code is code
here: fenced or indented, with words behind the language, within a list.
"""

from __future__ import annotations

from pathlib import Path

import attrs
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
INDENTED = "indented"
"""In place of the language of a block that is indented, and has no fence to say it."""

_MARKDOWN = MarkdownIt("commonmark").enable("table")

PAGES = {
    path.relative_to(ROOT).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for path in sorted(ROOT.glob(pattern))
}
"""`README`, `docs/fetching`, `docs/reference/claims` ...: the texts of all pages."""


@attrs.frozen
class Block:
    """A block of code on a page."""

    page: str
    line: int
    language: str
    """What its fence says, "" where that says nothing."""
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line} ({self.language or 'bare'})"


def page(name: str) -> str:
    """The text of docs/<name>.md."""
    return PAGES[f"docs/{name}"]


def code(text: str, name: str = "") -> list[Block]:
    """All blocks of code of a page, in order, but for what is there for the generator alone (`{toctree}`)."""
    found = []
    for token in _MARKDOWN.parse(text):
        if token.type in ("fence", "code_block") and not token.info.startswith("{"):
            language = INDENTED if token.type == "code_block" else token.info.partition(" ")[0]
            found.append(Block(name, token.map[0] + 1 if token.map else 0, language, token.content))
    return found


def blocks(text: str, language: str) -> list[str]:
    """The code blocks of a page that are said to be in this language, in order."""
    return [block.text for block in code(text) if block.language == language]


def inline(text: str) -> list[str]:
    """Return the texts between backticks on a page."""
    tokens = [child for token in _MARKDOWN.parse(text) for child in token.children or ()]
    return [" ".join(token.content.split()) for token in tokens if token.type == "code_inline"]
