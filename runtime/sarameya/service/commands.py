"""The subcommands: our own, and those of others by the entry-point group `sarameya.commands`.

A command is a function that takes its `argparse.ArgumentParser`, adds its arguments and sets the default
`run`, a callable from the parsed arguments to an exit code. The entry point's name is the subcommand's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from sarameya.errors import HandlerError
from sarameya.service import broker_command, run_command
from sarameya.service.groups import command as groups_command

ENTRY_POINT_GROUP = "sarameya.commands"

AddArguments = Callable[[argparse.ArgumentParser], None]

_OURS: dict[str, tuple[AddArguments, str]] = {
    "run": (run_command.add_arguments, run_command.SUMMARY),
    "broker": (broker_command.add_arguments, broker_command.SUMMARY),
    "groups": (groups_command.add_arguments, groups_command.SUMMARY),
}


def add_commands(subparsers: Any, argv: Sequence[str], common: argparse.ArgumentParser) -> None:
    """Add every command to `subparsers`; another package's is imported only when `argv` names it."""
    for name, (add_arguments, summary) in _OURS.items():
        add_arguments(subparsers.add_parser(name, parents=[common], help=summary, description=summary))
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        package = entry.dist.name if entry.dist else entry.module
        parser = subparsers.add_parser(entry.name, parents=[common], help=f"(from {package})")
        if entry.name in argv:
            _load(entry)(parser)


def _load(entry: EntryPoint) -> AddArguments:
    try:
        add_arguments: AddArguments = entry.load()
    except (ImportError, AttributeError) as error:
        raise HandlerError(f"command {entry.name!r} cannot be imported: {error}") from error
    return add_arguments
