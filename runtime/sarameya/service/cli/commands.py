"""The subcommands: built-in commands, and other packages' commands from the entry-point group `sarameya.commands`.

A command is a function that takes its `argparse.ArgumentParser`, adds its arguments (and its `description`), and sets
the default `run`: a function from the parsed arguments to an exit code. The entry point has the subcommand's name.
Such a command may use what `sarameya.service` exports. It may have an attribute `summary`, the text in the list of
commands. Otherwise the list calls the command, and shows the start of its description.

A command is imported only if the command line names it: importing all takes four times as long as the list of commands.
Test: `tests/test_imports.py::test_start_imports_no_other_third_party_package`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from sarameya.errors import HandlerError
from sarameya.service.output.log_format import configure_logging

ENTRY_POINT_GROUP = "sarameya.commands"

AddArguments = Callable[[argparse.ArgumentParser], None]
Run = Callable[[argparse.Namespace], int]

BUILT_IN: Mapping[str, tuple[str, str]] = {
    "run": ("cli.run_command", "run members of a consumer group with the handler that an app file names"),
    "broker": (
        "cli.broker_command",
        "serve the embedded broker on a TCP port, in memory: nothing is kept when it ends",
    ),
    "config": ("cli.config_command", "show an app's effective configuration, or the reference of all options"),
    "dashboard": (
        "dashboard.command",
        "show a whole group on one page, from Kafka and from its members' endpoints",
    ),
    "groups": (
        "groups.command",
        "show the groups of a Kafka cluster, and reset offsets of those without members",
    ),
    "letters": ("letters.command", "show dead letters, and send them back"),
    "completion": ("cli.completion_command", "print a script that completes the command line in a shell"),
    "topics": ("topics.command", "show, create, grow and delete the topics of a Kafka cluster"),
}
"""Module of each built-in command, within `sarameya.service`, and its summary."""


def add_commands(subparsers: Any, argv: Sequence[str], common: argparse.ArgumentParser, *, whole: bool = False) -> None:
    """Add every command to `subparsers`.

    Args:
        subparsers: The root parser's subparsers.
        argv: The command line. A command is imported only if `argv` names it. Another package's command is also loaded
            if `argv` names none: then the help lists all, with their summaries.
        common: The parser with the arguments of every command.
        whole: Import every command. Another package's command that cannot be imported gets no arguments.
    """
    chosen = next((argument for argument in argv if not argument.startswith("-")), None)
    for name, (module, summary) in BUILT_IN.items():
        parser = subparsers.add_parser(name, parents=[common], help=summary, description=summary)
        if name == chosen or whole:
            import_module(f"sarameya.service.{module}").add_arguments(parser)
    taken = set(BUILT_IN)
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
        package = entry.dist.name if entry.dist else entry.module
        if entry.name in taken:
            if entry.name == chosen:
                warning = f"the command {entry.name!r} of {package} is ignored: another command has the same name"
                print(f"sarameya: {warning}", file=sys.stderr)
            continue
        taken.add(entry.name)
        summary = f"from {package}; see its own --help"
        if chosen is None or whole:
            summary = _summary(entry) or summary
        parser = subparsers.add_parser(entry.name, parents=[common], help=summary)
        if entry.name == chosen or whole:
            with suppress(HandlerError) if whole else nullcontext():
                _add(entry, parser)
                parser.set_defaults(run=partial(_run, parser.get_default("run")))


def _summary(entry: EntryPoint) -> str:
    """Return the command's summary: its own, or the start of its description, up to a full stop or a colon.

    Empty if the command cannot be imported.
    """
    parser = argparse.ArgumentParser()
    with suppress(HandlerError):
        command = _load(entry)
        if summary := getattr(command, "summary", ""):
            return str(summary)
        _add(entry, parser)
    words = re.split(r"[.:](?:\s|$)", parser.description or "", maxsplit=1)[0]
    return words[:1].lower() + words[1:]


def _load(entry: EntryPoint) -> AddArguments:
    """Import a command of another package.

    Raises:
        HandlerError: The import fails, with any exception.
    """
    with _errors_of(entry):
        command: AddArguments = entry.load()
    return command


def _add(entry: EntryPoint, parser: argparse.ArgumentParser) -> None:
    """Import a command of another package, and let it add its arguments.

    Raises:
        HandlerError: One of both fails, with any exception.
    """
    command = _load(entry)
    with _errors_of(entry):
        command(parser)


@contextmanager
def _errors_of(entry: EntryPoint) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        cause = str(error) if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: {error}"
        raise HandlerError(f"command {entry.name!r} cannot be imported: {cause}") from error


def _run(run: Run, args: argparse.Namespace) -> int:
    configure_logging(
        "debug" if args.debug else args.log_level,
        log_format=getattr(args, "log_format", None) or "text",
        worker=getattr(args, "worker", None),
    )
    return run(args)
