"""`sarameya run app.toml`: runs a group's members as a service, in this process or in worker processes."""

from __future__ import annotations

import argparse
from pathlib import Path

from sarameya.service.app.app_file import load
from sarameya.service.output.help_epilog import epilog
from sarameya.service.process.app_runner import add_run_arguments, run_app


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to `parser`."""
    parser.add_argument("app_file", type=Path, metavar="APP.toml", help="the group, its topics and the handler")
    add_run_arguments(parser)
    parser.epilog = epilog("sarameya run landing.toml", "sarameya run landing.toml --workers 4 --log-level warning")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run until a signal. Raises the exceptions of members that failed."""
    loaded = load(args.app_file)
    return run_app(loaded.app, loaded.layers, args)
