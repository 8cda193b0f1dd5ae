"""`sarameya config`: prints an app's effective configuration, or the reference of all options.

No request goes to a broker. The handler is built as for a running app, but nothing starts.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sarameya.errors import ConfigError
from sarameya.service.app.app_file import load
from sarameya.service.app.handler_factory import default_options
from sarameya.service.cli.effective_config import settings, settings_document, settings_text
from sarameya.service.cli.options_page import page
from sarameya.service.output.command_result import print_out, show
from sarameya.service.output.error_report import ExitCode
from sarameya.service.output.help_epilog import epilog
from sarameya.service.output.log_format import add_logging_arguments
from sarameya.service.process.app_runner import make_handler


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to `parser`."""
    parser.epilog = epilog("sarameya config show landing.toml", "sarameya config docs")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    summary = "print every value of an app with its origin: the file, an environment variable, or the default"
    showing = commands.add_parser("show", help=summary, description=f"{summary}; secrets are masked")
    showing.epilog = epilog("sarameya config show landing.toml", "sarameya config show landing.toml --json")
    showing.add_argument("app_file", type=Path, metavar="APP.toml", help="the app file")
    showing.add_argument("--json", action="store_true", help="print one JSON document, for programs")
    showing.set_defaults(run=_show)
    summary = "write the reference of all options, as a Markdown page"
    docs = commands.add_parser("docs", help=summary, description=summary)
    docs.epilog = epilog("sarameya config docs --output docs/configuration.md")
    docs.add_argument("--output", type=Path, metavar="FILE", help="write to this file, not to standard output")
    docs.set_defaults(run=_docs)
    for command in (showing, docs):
        add_logging_arguments(command, default=argparse.SUPPRESS)


def _show(args: argparse.Namespace) -> int:
    """Print the effective configuration.

    Raises:
        AppFileError: The app could not run.
    """
    loaded = load(args.app_file)
    make_handler(loaded.app, loaded.layers)
    rows = settings(loaded, default_options(loaded.app.handler.name))
    show(settings_text(rows), settings_document(loaded, rows), as_json=args.json)
    return ExitCode.OK


def _docs(args: argparse.Namespace) -> int:
    if args.output:
        try:
            args.output.write_text(page(), encoding="utf-8")
        except OSError as error:
            raise ConfigError("--output", str(args.output), f"cannot be written: {error.strerror}") from error
    else:
        print_out(page())
    return ExitCode.OK
