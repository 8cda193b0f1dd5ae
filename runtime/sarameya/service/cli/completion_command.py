"""`sarameya completion bash|zsh`: prints a script that completes the command line, generated from the parsers.

The script is static: TAB starts no process of sarameya. The script knows the commands that are installed when it is
generated.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from sarameya.errors import HandlerError
from sarameya.extras import install_command
from sarameya.service.output.command_result import print_out
from sarameya.service.output.error_report import ExitCode
from sarameya.service.output.help_epilog import epilog

_FILES = {"bash": "_shtab_compgen_files", "zsh": "_files"}
"""Completion of file names in each shell."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to `parser`."""
    parser.add_argument("shell", choices=("bash", "zsh"), help="which shell")
    parser.epilog = epilog(
        "sarameya completion bash > ~/.local/share/bash-completion/completions/sarameya",
        "sarameya completion zsh > ~/.zfunc/_sarameya",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the script.

    Raises:
        HandlerError: shtab is not installed.
    """
    try:
        import shtab
    except ImportError as error:
        raise HandlerError(f"completion needs shtab: {install_command('service')}") from error

    parser: argparse.ArgumentParser = args.whole_parser()
    for action in _actions(parser):
        if action.type is Path or action.metavar == "FILE":
            action.complete = _FILES  # type: ignore[attr-defined]
    print_out(shtab.complete(parser, shell=args.shell) + "\n")
    return ExitCode.OK


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)
