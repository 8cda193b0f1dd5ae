"""The subcommands: built-in commands, and other packages' commands from the entry-point group `sarameya.commands`.

A command is a function that takes its `argparse.ArgumentParser`, adds its arguments (and its `description`), and sets
the default `run`: a function from the parsed arguments to an exit code. The entry point has the subcommand's name.
Such a command may use what `sarameya.service` exports.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from sarameya.errors import HandlerError
from sarameya.service.cli import broker_command, completion_command, config_command, run_command
from sarameya.service.dashboard import command as dashboard_command
from sarameya.service.groups import command as groups_command
from sarameya.service.output.log_format import configure_logging
from sarameya.service.topics import command as topics_command

ENTRY_POINT_GROUP = "sarameya.commands"

AddArguments = Callable[[argparse.ArgumentParser], None]
Run = Callable[[argparse.Namespace], int]

_BUILT_IN: dict[str, tuple[AddArguments, str]] = {
    "run": (run_command.add_arguments, run_command.SUMMARY),
    "broker": (broker_command.add_arguments, broker_command.SUMMARY),
    "config": (config_command.add_arguments, config_command.SUMMARY),
    "dashboard": (dashboard_command.add_arguments, dashboard_command.SUMMARY),
    "groups": (groups_command.add_arguments, groups_command.SUMMARY),
    "completion": (completion_command.add_arguments, completion_command.SUMMARY),
    "topics": (topics_command.add_arguments, topics_command.SUMMARY),
}


def add_commands(subparsers: Any, argv: Sequence[str], common: argparse.ArgumentParser, *, whole: bool = False) -> None:
    """Add every command to `subparsers`.

    Args:
        subparsers: The root parser's subparsers.
        argv: The command line. Another package's command is imported only if `argv` names it, or names no command: then
            the help lists all.
        common: The parser with the arguments of every command.
        whole: Import every command. A command that cannot be imported gets no arguments.
    """
    for name, (add_arguments, summary) in _BUILT_IN.items():
        add_arguments(subparsers.add_parser(name, parents=[common], help=summary, description=summary))
    chosen = next((argument for argument in argv if not argument.startswith("-")), None)
    taken = set(_BUILT_IN)
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
    """Return the start of the command's description, up to a full stop or a colon. Empty if it cannot be imported."""
    parser = argparse.ArgumentParser()
    with suppress(HandlerError):
        _add(entry, parser)
    words = re.split(r"[.:](?:\s|$)", parser.description or "", maxsplit=1)[0]
    return words[:1].lower() + words[1:]


def _add(entry: EntryPoint, parser: argparse.ArgumentParser) -> None:
    """Import a command of another package, and let it add its arguments.

    Raises:
        HandlerError: One of both fails, with any exception.
    """
    try:
        add_arguments: AddArguments = entry.load()
        add_arguments(parser)
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
