"""The reference of the command line as a Markdown page: docs/cli.md, generated from the parsers. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

CLUSTER = "the cluster"
"""The title of the argument group that all commands for a cluster have."""

_COMMON_OPTIONS = {"-h", "--debug", "--log-level"}

_HEAD = """<!-- Written by `python -m tools.cli_page`; run `make cli` after a change. -->

# The command line

    pip install '/path/to/clone[service]'        # with progress bars and completion

Every command takes `--help`, with examples; `--debug`, which logs more and adds the traceback to errors; and
`--log-level debug|info|warning|error`. Results go to stdout. Everything else goes to stderr: the log, progress (a bar
on a terminal, lines elsewhere, nothing with `--quiet`), and errors, each a line that says what to do. Commands that
print a table print a document with `--json`.

## Exit codes

| code | meaning |
|---|---|
| 0 | ended as requested by SIGINT, SIGTERM or the supervisor: drained, committed and left; a command succeeded |
| 1 | failed; the same may succeed later, by itself (so a supervisor may restart it). For `verify`: not proved |
| 2 | a person must change something first: arguments, the app file, credentials, a permission, the table, an offset |
| 129, 130, 143 | ended at once by SIGHUP, SIGINT or SIGTERM |

`run`, `land`, `broker` and `dashboard` end in order at the first signal and at once at the second; any other command
ends at once at the first.

"""


def page(parser: argparse.ArgumentParser) -> str:
    """Return the page for the program's parser with all its commands."""
    commands = list(_commands(parser))
    shared = next(group for command in commands for group in command._action_groups if group.title == CLUSTER)
    parts = [
        "## The cluster\n\nThese arguments name the cluster; so does\n"
        "[the environment](configuration.md#environment-variables).\n",
        _table(shared._group_actions),
        *map(_section, commands),
    ]
    return _HEAD + "\n".join(parts)


def _commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers of all commands, by name. Parsers that only hold subcommands are left out."""
    subparsers = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not subparsers:
        yield parser
    for action in subparsers:
        for name in sorted(action.choices):
            yield from _commands(action.choices[name])


def _section(parser: argparse.ArgumentParser) -> str:
    examples, codes = _epilog(parser)
    own = [
        action
        for group in parser._action_groups
        if group.title != CLUSTER
        for action in group._group_actions
        if action.help != argparse.SUPPRESS and not _COMMON_OPTIONS & {*action.option_strings}
    ]
    parts = [f"## `{parser.prog}`\n", f"{_sentence(parser.description or '')}\n"]
    parts.append("".join(f"    {line}\n" for line in examples))
    if own:
        parts.append(_table(own))
    if any(group.title == CLUSTER for group in parser._action_groups):
        parts.append("Also the arguments for [the cluster](#the-cluster).\n")
    if codes:
        parts.append(f"Exit codes: {codes}.\n")
    return "\n".join(parts)


def _epilog(parser: argparse.ArgumentParser) -> tuple[list[str], str]:
    """Return the examples, and the exit codes that only this command has."""
    lines = (parser.epilog or "").splitlines()
    codes = [line.removeprefix("exit codes: ") for line in lines if line.startswith("exit codes: ")]
    return [line.strip() for line in lines if line.startswith("  ")], "".join(codes)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def _table(actions: Iterable[argparse.Action]) -> str:
    rows = [(_name(action), (action.help or "") % {"default": action.default}) for action in actions]
    lines = ["| argument | |", "|---|---|", *(f"| {_cell(name)} | {_cell(text)} |" for name, text in rows)]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _name(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else None
    if action.choices is not None:
        value = value or "|".join(map(str, action.choices))
    elif action.nargs != 0:
        value = value or action.dest.upper()
    if not action.option_strings:
        return f"`{value}{'...' if action.nargs in ('*', '+') else ''}`"
    names = [f"`{name} {value}`" if value and action.nargs != 0 else f"`{name}`" for name in action.option_strings]
    return ", ".join(names) + (" (required)" if action.required else "")
