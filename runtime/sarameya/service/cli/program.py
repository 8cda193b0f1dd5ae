"""The command line `sarameya`: parses arguments, runs one command, and turns errors into lines and an exit code."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, NoReturn

from sarameya._version import __version__
from sarameya.service.cli.commands import add_commands
from sarameya.service.output.error_report import ExitCode, leaves, report
from sarameya.service.output.help_epilog import epilog
from sarameya.service.output.log_format import add_logging_arguments


class HelpFormatter(argparse.HelpFormatter):
    """A formatter that keeps the line breaks of texts that have them, such as examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line with the remedy. Options cannot be abbreviated."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"formatter_class": HelpFormatter, "allow_abbrev": False, **kwargs})

    def parse_known_args(self, *args: Any, **kwargs: Any) -> tuple[Any, list[str]]:
        """Parse. Report unknown arguments here, so that the error refers to the help of the subcommand."""
        known, unknown = super().parse_known_args(*args, **kwargs)
        if unknown:
            # The names of options only: an option's value may be a secret.
            names = [argument.partition("=")[0] for argument in unknown if argument.startswith("-")]
            near = [*get_close_matches(names[0], self._option_string_actions, n=1)] if names else []
            hint = f"; did you mean {near[0]}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(names or unknown)}{hint}")
        return known, unknown

    def error(self, message: str) -> NoReturn:
        self.exit(ExitCode.CONFIGURATION, f"sarameya: error: {message} (see `{self.prog} --help`)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit code.

    Args:
        argv: The arguments; this process's own by default.
    """
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:  # before the command handles signals itself
        return ExitCode.on_signal(signal.SIGINT)
    except BaseExceptionGroup as group:
        if all(isinstance(leaf, KeyboardInterrupt) for leaf in leaves(group)):  # raised through nurseries
            return ExitCode.on_signal(signal.SIGINT)
        raise


def _run(argv: Sequence[str]) -> int:
    try:
        args = build_parser(argv).parse_args(argv)
        args.argv = tuple(argv)  # workers are started with the same arguments
        _import_from_working_directory()
        return int(args.run(args))
    except SystemExit as done:  # argparse has printed its help or its error
        if isinstance(done.code, str):  # a module of the user has called `sys.exit(text)`
            print(done.code, file=sys.stderr)
            return ExitCode.FAILURE
        return int(done.code or 0)
    except Exception as error:  # noqa: BLE001  the last place: every error is reported, and becomes the exit code
        return report(error, debug="--debug" in argv)


def _import_from_working_directory() -> None:
    """Put the working directory on the import path, for handlers and functions that app files and arguments name.

    Python does that for `python -m`, but not for an installed script.
    """
    with suppress(FileNotFoundError):  # the directory may be deleted
        if (here := os.getcwd()) not in sys.path:
            sys.path.insert(0, here)


def whole_parser() -> argparse.ArgumentParser:
    """Return the parser with every command and its arguments, also those of other packages."""
    return build_parser((), whole=True)


def build_parser(argv: Sequence[str], *, whole: bool = False) -> argparse.ArgumentParser:
    """Return the parser for `argv`.

    Args:
        argv: The command line. Another package's command is imported only if it is named here.
        whole: Import every command and add its arguments.
    """
    common = argparse.ArgumentParser(add_help=False)
    add_logging_arguments(common)
    parser = Parser(
        prog="sarameya",
        description="Run Kafka consumer groups as a service.",
        epilog=epilog(
            "sarameya run landing.toml",
            "sarameya land --bootstrap localhost:9092 --group g --topic orders --to parquet:landing/orders",
            "sarameya groups describe orders-landing --bootstrap localhost:9092",
            exit_codes="0 ended as requested, 1 failed, 2 the command line or configuration must change,\n"
            "129, 130 and 143 ended at once by SIGHUP, SIGINT or SIGTERM. run, land, broker and dashboard end\n"
            "in order at the first signal and at once at the second; any other command at once at the first",
        ),
    )
    # Commands get this function by the parser's defaults, since they cannot import this module: it imports them.
    parser.set_defaults(whole_parser=whole_parser)
    parser.add_argument("--version", action="version", version=f"sarameya {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    add_commands(subparsers, argv, common, whole=whole)
    return parser
