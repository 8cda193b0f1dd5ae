"""Help texts of all commands. Their parsers accept the examples."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from importlib.metadata import entry_points

import pytest

from sarameya.service.cli.commands import BUILT_IN, ENTRY_POINT_GROUP
from sarameya.service.cli.program import HelpFormatter, whole_parser
from sarameya.service.output.help_epilog import epilog

PARSER = whole_parser()


def parsers(parser: argparse.ArgumentParser = PARSER) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


def examples(parser: argparse.ArgumentParser) -> list[str]:
    return [line.strip() for line in (parser.epilog or "").splitlines() if line.startswith("  sarameya ")]


EXAMPLES = [(parser.prog, line) for parser in parsers() for line in examples(parser)]


@pytest.mark.parametrize("parser", [*parsers()], ids=lambda parser: parser.prog)
def test_every_command_has_a_description_and_its_own_example(parser: argparse.ArgumentParser) -> None:
    assert parser.description
    assert examples(parser)
    assert all(line.startswith(f"{parser.prog} ") for line in examples(parser))
    assert all(line in parser.format_help() for line in examples(parser)), "the help text changes the example"


@pytest.mark.parametrize(("prog", "line"), EXAMPLES, ids=[line for _, line in EXAMPLES])
def test_every_example_is_accepted_by_the_parser(prog: str, line: str) -> None:
    words = shlex.split(line.partition(" > ")[0])
    args = whole_parser().parse_args(words[1:])
    assert callable(args.run)


def test_own_entry_point_commands_are_listed() -> None:
    progs = {parser.prog for parser in parsers()}
    assert {"sarameya run", "sarameya topics create", "sarameya groups offsets reset", "sarameya verify"} <= progs
    assert {f"sarameya {entry.name}" for entry in entry_points(group=ENTRY_POINT_GROUP)} <= progs


def test_summaries_of_built_in_commands_are_their_descriptions() -> None:
    (commands,) = (action for action in PARSER._actions if isinstance(action, argparse._SubParsersAction))
    assert {name: commands.choices[name].description for name in BUILT_IN} == {
        name: summary for name, (_, summary) in BUILT_IN.items()
    }


def test_paragraphs_are_wrapped_and_examples_are_not() -> None:
    parser = argparse.ArgumentParser(
        prog="p",
        formatter_class=lambda prog: HelpFormatter(prog, width=40),
        description="word " * 20,
        epilog=epilog("p" + " --long" * 10, exit_codes="0 done"),
    )
    lines = parser.format_help().splitlines()
    assert max(map(len, lines[lines.index("") : lines.index("options:")])) <= 40
    assert lines[-4:] == ["example:", "  p" + " --long" * 10, "", "exit codes: 0 done"]
