"""`sarameya`: parses the command line, runs one command, and turns whatever it raises into lines and an exit code."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from sarameya.service.commands import add_commands
from sarameya.service.failures import ExitCode, leaves, report
from sarameya.service.log_lines import add_logging_arguments


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line, with the remedy."""

    def error(self, message: str) -> NoReturn:
        self.exit(ExitCode.CONFIGURATION, f"sarameya: error: {message} (see `{self.prog} --help`)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: this process's own); return its exit code."""
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:  # before the command could take the signal itself
        return ExitCode.on_signal(signal.SIGINT)
    except BaseExceptionGroup as group:
        if all(isinstance(leaf, KeyboardInterrupt) for leaf in leaves(group)):  # by way of its nurseries
            return ExitCode.on_signal(signal.SIGINT)
        raise


def _run(argv: Sequence[str]) -> int:
    try:
        args = build_parser(argv).parse_args(argv)
        return int(args.run(args))
    except SystemExit as done:  # argparse has printed its help or its error
        return int(done.code or 0)
    except Exception as error:  # noqa: BLE001  the end of the line: everything is told and becomes the exit code
        return report(error, debug="--debug" in argv)


def build_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    add_logging_arguments(common)
    parser = Parser(
        prog="sarameya",
        description="Run Kafka consumer groups as a service.",
        epilog="exit codes: 0 ended as asked, 1 failed, 2 the command line or configuration must change, "
        "130 and 143 ended at once by a second SIGINT or SIGTERM",
    )
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    add_commands(subparsers, argv, common)
    return parser
