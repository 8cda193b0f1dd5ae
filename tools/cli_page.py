"""Regenerates docs/cli.md from the parsers: `python -m tools.cli_page`."""

from __future__ import annotations

from pathlib import Path

from sarameya.service.cli.program import whole_parser
from sarameya.service.cli.reference_page import page

COMMAND = "make cli"
PAGE = Path(__file__).parents[1] / "docs" / "cli.md"

if __name__ == "__main__":
    PAGE.write_text(page(whole_parser()), encoding="utf-8")
