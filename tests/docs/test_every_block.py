"""Nothing stands on a page that nobody runs: each code block has a test, each command line a parser that takes it."""

from __future__ import annotations

import argparse
import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator

import pytest

from sarameya.service.cli import build_parser
from tests.docs.pages import PAGES, ROOT, blocks

RUNNERS = {
    ("README", "python"): "tests/docs/test_readme_page.py",
    ("README", "toml"): "tests/test_house.py",
    ("docs/audit", "python"): "tests/docs/test_audit_page.py",
    ("docs/backpressure", "python"): "tests/docs/test_backpressure_page.py",
    ("docs/coming-from-aiokafka", "python"): "tests/docs/test_coming_from_pages.py",
    ("docs/coming-from-confluent-kafka", "python"): "tests/docs/test_coming_from_pages.py",
    ("docs/coming-from-kafka-python", "python"): "tests/docs/test_coming_from_pages.py",
    ("docs/coming-from-sarama", "python"): "tests/docs/test_coming_from_pages.py",
    ("docs/coming-from-spark", "python"): "tests/docs/test_coming_from_pages.py",
    ("docs/coming-from-spark", "toml"): "tests/docs/test_coming_from_pages.py",
    ("docs/configuration", "python"): "tests/docs/test_configuration_page.py",
    ("docs/fetching", "python"): "tests/docs/test_fetching_page.py",
    ("docs/handlers", "python"): "tests/docs/test_handlers_page.py",
    ("docs/offsets", "python"): "tests/docs/test_offsets_page.py",
    ("docs/offsets", "toml"): "tests/docs/test_offsets_page.py",
    ("docs/operations", "json"): "tests/docs/test_operations_page.py",
    ("docs/operations", "text"): "tests/docs/test_operations_page.py",
    ("docs/producing", "python"): "tests/docs/test_producing_page.py",
    ("docs/producing", "toml"): "tests/docs/test_producing_page.py",
    ("docs/rebalancing", "python"): "tests/docs/test_rebalancing_page.py",
    ("docs/security", "python"): "tests/docs/test_security_page.py",
    ("docs/security", "sh"): "tests/docs/test_security_page.py",
    ("docs/security", "toml"): "tests/docs/test_security_page.py",
    ("docs/shaping", "python"): "tests/docs/test_shaping_page.py",
    ("docs/shaping", "toml"): "tests/docs/test_shaping_page.py",
    ("docs/status-page", "python"): "tests/docs/test_status_page.py",
    ("docs/status-page", "toml"): "tests/docs/test_status_page.py",
    ("docs/status-page", "yaml"): "tests/docs/test_status_page.py",
    ("docs/tables", "toml"): "tests/docs/test_tables_page.py",
    ("docs/testing", "ini"): "tests/docs/test_testing_page.py",
    ("docs/testing", "python"): "tests/docs/test_testing_page.py",
    ("docs/tutorial", "console"): "tests/integration/test_tutorial.py",
    ("docs/tutorial", "python"): "tests/integration/test_tutorial.py",
    ("docs/tutorial", "sh"): "tests/docs/test_every_block.py",  # what is installed, below
    ("docs/tutorial", "toml"): "tests/integration/test_tutorial.py",
}
"""Which test has the blocks of a page in a language: all of them, as `blocks` gives them."""

NOT_CODE = {"", "mermaid", "{toctree}"}
"""What is printed, drawn or contents."""

SHELL = re.compile(r"^(?:    |\$ )?((?:sarameya|make|python3?) +(?!\w+: ).*)$", re.MULTILINE)
OF_THE_TUTORIAL = {"produce.py", "read.py"}


def all_blocks() -> set[tuple[str, str]]:
    return {
        (name, language)
        for name, text in PAGES.items()
        for language in re.findall(r"^```(\S*)\n.*?^```", text, re.MULTILINE | re.DOTALL)
        if language not in NOT_CODE
    }


def commands() -> Iterator[tuple[str, str]]:
    """(page, command) for each line that a reader may type: indented, in a block for a shell, or behind a `$`."""
    for name, text in PAGES.items():
        prose = re.sub(r"^```\S*\n.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        typed = re.findall(r"(?:^    .*\n)+", prose, re.MULTILINE)
        typed += [block for language in ("sh", "console", "") for block in blocks(text, language)]
        for block in typed:
            for command in SHELL.findall(block):
                # Two spaces part the columns of a table, in what a command prints.
                if not re.match(r"sarameya +orders ", command):
                    yield name, re.split(r"  #| > ", command)[0].strip()


def test_every_block_has_a_test_that_has_it() -> None:
    assert all_blocks() == set(RUNNERS)


@pytest.mark.parametrize(("block", "runner"), RUNNERS.items(), ids="-".join)
def test_test_of_a_block_takes_it_from_its_page(block: tuple[str, str], runner: str) -> None:
    name, language = block
    text = (ROOT / runner).read_text(encoding="utf-8")
    short = name.removeprefix("docs/")
    taken = short if short in text else short.removeprefix("coming-from-")
    assert f'"{taken}"' in text or "README" in text
    assert f'"{language}"' in text


def test_commands_are_found() -> None:
    found = list(commands())
    assert len(found) > 30
    assert {"README", "docs/groups", "docs/audit", "docs/tutorial", "docs/offsets"} <= {name for name, _ in found}


@pytest.mark.parametrize(("name", "command"), sorted(set(commands())))
def test_command_is_one(name: str, command: str) -> None:
    program, *rest = shlex.split(command.partition(" > ")[0])
    if program == "make":
        assert re.search(rf"^{rest[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif program == "sarameya":
        known = build_parser(rest).parse_args(rest)
        assert isinstance(known, argparse.Namespace)
    elif rest[0] == "-m":
        assert importlib.util.find_spec(rest[1]) is not None
    else:
        assert rest[0] in OF_THE_TUTORIAL


@pytest.mark.parametrize("command", ["sarameya runn app.toml", "sarameya run app.toml --no-such-option"])
def test_command_that_is_none_is_noticed(command: str) -> None:
    with pytest.raises(SystemExit):
        build_parser(command.split()[1:]).parse_args(command.split()[1:])


def test_extras_that_are_to_be_installed_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = {
        extra
        for text in PAGES.values()
        for found in re.findall(r"pip install '[^'\[]+\[([\w,]+)\]'", text)
        for extra in found.split(",")
    }
    assert {"spark", "testing"} <= asked <= set(extras)
