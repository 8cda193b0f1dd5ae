"""Every code block on a page has a test, and a parser accepts every command line."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import count

import pytest

from bench.__main__ import argument_parser, load_benches
from sarameya.service.cli.program import build_parser
from tests.docs.block_tests import CLAIMS, Claims
from tests.docs.pages import INDENTED, PAGES, ROOT, Block, code, inline
from tests.service.cli.test_help import parsers

COMMANDS = "tests/docs/test_every_block.py::test_command_is_accepted_by_its_parser"

SHELL = re.compile(r"(?:\$ )?((?:sarameya|make|python3?) +(?!\w+: ).*)")
TUTORIAL_PROGRAMS = {"produce.py", "read.py"}
LEAVES = [parser.prog for parser in parsers() if parser._subparsers is None]


def blocks_with_tests(blocks: list[Block], claims: Claims) -> Iterator[tuple[Block, list[str]]]:
    """Yield each block with the tests that claim it."""
    numbers = {key: count() for key in {(block.page, block.language) for block in blocks}}
    for block in blocks:
        if block.language != "console" and commands_of(block) and all(map(SHELL.fullmatch, block.text.splitlines())):
            yield block, [COMMANDS]
            continue
        key, number = (block.page, block.language), next(numbers[block.page, block.language])
        yield block, list(claims.get(key, ())[number : number + 1])


def unclaimed(name: str, text: str, claims: Claims) -> list[str]:
    return [str(block) for block, tests in blocks_with_tests(code(text, name), claims) if len(tests) != 1]


def commands_of(block: Block) -> list[str]:
    """Return the command lines of a block: indented, in a block for a shell, or after a `$`."""
    if block.language not in (INDENTED, "sh", "console", ""):
        return []
    lines = [found[1] for line in block.text.splitlines() if (found := SHELL.fullmatch(line))]
    # A line with `sarameya` and `orders` is a row of a printed table: a sink and its topic.
    return [re.split(r"  #| > ", line)[0].strip() for line in lines if not re.match(r"sarameya +orders ", line)]


def commands() -> Iterator[tuple[str, str]]:
    for name, text in PAGES.items():
        for block in code(text, name):
            for command in commands_of(block):
                yield name, command


@pytest.mark.parametrize("name", PAGES)
def test_every_block_is_claimed_by_one_test(name: str) -> None:
    assert unclaimed(name, PAGES[name], CLAIMS) == []


def test_every_claim_has_a_block() -> None:
    existing: Counter[tuple[str, str]] = Counter()
    for name, text in PAGES.items():
        existing.update(
            (name, block.language)
            for block, tests in blocks_with_tests(code(text, name), CLAIMS)
            if COMMANDS not in tests
        )
    assert {key: len(tests) for key, tests in CLAIMS.items()} == existing


OTHER_FENCES = {
    "title": '```python title="one.py"\nx = 1\n```\n',
    "in a list": "- one\n\n  ```python\n  x = 1\n  ```\n",
    "in a quotation": "> ```python\n> x = 1\n> ```\n",
    "tildes": "~~~python\nx = 1\n~~~\n",
    "bare": "```\nx = 1\n```\n",
    "indented": "text\n\n    x = 1\n",
    "among commands": "    sarameya run app.toml\n    x = 1\n",
}


@pytest.mark.parametrize("text", OTHER_FENCES.values(), ids=OTHER_FENCES)
def test_unclaimed_block_of_any_form_is_detected(text: str) -> None:
    assert len(unclaimed("page", text, {})) == 1


def test_second_block_needs_its_own_claim() -> None:
    two = "```python\nx = 1\n```\n\n```python\ny = 1\n```\n"
    assert unclaimed("page", two, {("page", "python"): ("one",)}) == ["page:5 (python)"]
    assert unclaimed("page", two, {("page", "python"): ("one", "two")}) == []


@cache
def definitions(file: str) -> dict[str, ast.stmt]:
    """Return the functions and other names that a test's module defines."""
    found: dict[str, ast.stmt] = {}
    for one in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[one.name] = one
        elif isinstance(one, ast.Assign | ast.AnnAssign):
            for target in one.targets if isinstance(one, ast.Assign) else [one.target]:
                found |= {name.id: one for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found


def words(file: str, test: str) -> set[str]:
    """Return the strings in a test, its fixtures, and all else in its module that it uses."""
    known, seen, found = definitions(file), set[str](), set[str]()
    waiting = [test]
    while waiting:
        name = waiting.pop()
        if name in known and name not in seen:
            seen.add(name)
            for node in ast.walk(known[name]):
                if isinstance(node, ast.Name | ast.arg):
                    waiting.append(node.id if isinstance(node, ast.Name) else node.arg)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.add(node.value)
    return found


CLAIMED = sorted({(page, language, test) for (page, language), tests in CLAIMS.items() for test in tests})


@pytest.mark.parametrize(("page", "language", "test"), CLAIMED)
def test_claimed_tests_exist_and_read_their_page(page: str, language: str, test: str) -> None:
    file, _, name = test.partition("::")
    assert name in definitions(file)
    if file.startswith("tests/docs/") and test != EXTRAS:  # other tests read the whole page
        short = page.removeprefix("docs/")
        found = words(file, name)
        assert language in found
        assert {short, short.removeprefix("coming-from-")} & found


EXTRAS = "tests/docs/test_every_block.py::test_extras_to_install_exist"


def test_commands_are_found() -> None:
    found = list(commands())
    assert len(found) > 60
    assert {"README", "docs/groups", "docs/audit", "docs/tutorial", "docs/offsets"} <= {name for name, _ in found}


def check(command: str) -> None:
    """Raise the error of the called program if it refuses the arguments."""
    program, *rest = shlex.split(command.partition(" > ")[0])
    if program == "make":
        assert re.search(rf"^{rest[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif program == "sarameya":
        known = build_parser(rest).parse_args(rest)
        assert isinstance(known, argparse.Namespace)
    elif rest[:2] == ["-m", "bench"]:
        assert argument_parser(load_benches()).parse_args(rest[2:]).bench
    elif rest[0] == "-m":
        assert importlib.util.find_spec(rest[1]) is not None
    else:
        assert rest[0] in TUTORIAL_PROGRAMS


@pytest.mark.parametrize(("name", "command"), sorted(set(commands())))
def test_command_is_accepted_by_its_parser(name: str, command: str) -> None:
    check(command)


@pytest.mark.parametrize(
    "command",
    [
        "sarameya runn app.toml",
        "sarameya run app.toml --no-such-option",
        "python -m bench nothing",
        "python -m bench latency --no-such-option",
    ],
)
def test_invalid_command_is_detected(command: str) -> None:
    with pytest.raises(SystemExit):
        check(command)


@pytest.mark.parametrize("name", PAGES)
def test_command_in_a_sentence_is_valid(name: str) -> None:
    for command in inline(PAGES[name]):
        if command.startswith(("make ", "python -m ")):
            check(command)
        elif found := re.match(r"sarameya((?: [a-z]+)+)", command):
            assert any(f"{leaf} ".startswith(f"{found[0]} ") or found[0].startswith(leaf) for leaf in LEAVES), command


def test_extras_to_install_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {
        extra
        for text in PAGES.values()
        for found in re.findall(r"pip install '[^'\[]+\[([\w,]+)\]'", text)
        for extra in found.split(",")
    }
    assert {"spark", "testing"} <= named <= set(extras)
