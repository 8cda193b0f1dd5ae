"""docs/cli.md equals the text generated from the parsers, and has every command."""

from __future__ import annotations

import re

from sarameya.service.cli import reference_page
from sarameya.service.cli.program import whole_parser
from tests.docs.pages import page
from tests.service.cli.test_help import parsers
from tools.cli_page import COMMAND

PAGE = page("cli")
LEAVES = [parser for parser in parsers() if parser._subparsers is None]


def test_page_equals_the_generated_text() -> None:
    assert reference_page.page(whole_parser()) == PAGE, f"docs/cli.md is stale; run: {COMMAND}"


def test_every_command_has_a_section_and_every_argument_a_row() -> None:
    sections = dict(re.findall(r"^## `(sarameya .*?)`\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
    assert set(sections) == {parser.prog for parser in LEAVES}
    shared = PAGE[PAGE.index("## The cluster") :].partition("## `")[0] + "`-h` `--debug` `--log-level`"
    for parser in LEAVES:
        for action in parser._actions:
            if action.help != "==SUPPRESS==":
                for name in action.option_strings[:1]:
                    assert f"`{name}" in sections[parser.prog] + shared, (parser.prog, name)


def test_rows_have_as_many_cells_as_their_header() -> None:
    for block in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1, block
