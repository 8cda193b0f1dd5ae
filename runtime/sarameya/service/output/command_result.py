"""Results of commands that use a cluster: printed to stdout all at once, at the end.

Errors are raised after that, so that they reach stderr and the exit code is not 0.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import trio

from sarameya.errors import SarameyaError
from sarameya.observe import ConnectionLost, Event, Retrying, log_event
from sarameya.observe.log import log_event_at
from sarameya.service.output.error_report import ExitCode
from sarameya.service.output.log_format import configure_logging

Document = dict[str, Any]


@attrs.frozen(slots=True)
class CommandResult:
    """The result of a command for programs and for people, and the errors of its failed parts."""

    document: Document
    text: str
    errors: tuple[SarameyaError, ...] = ()


def log_client_event(event: Event) -> None:
    """Log an event of the client that a command uses. Pass it to the client as its observer.

    Retries and lost connections are logged at level debug: if no retry succeeds, the command ends with the error.
    """
    if isinstance(event, Retrying | ConnectionLost):
        log_event_at(event, logging.DEBUG)
    else:
        log_event(event)


def run_and_print(args: argparse.Namespace, operation: Callable[[], Awaitable[CommandResult]]) -> int:
    """Run an operation under trio, and print its result as text, or as JSON with `--json`.

    Returns:
        The exit code 0.

    Raises:
        ExceptionGroup: Parts of the operation failed. The results of the others have been printed.
    """
    configure_logging("debug" if args.debug else args.log_level)
    result = trio.run(operation)
    show(result.text, result.document, as_json=args.json)
    if result.errors:
        raise ExceptionGroup("", result.errors)  # each error is reported in a line of its own, the group is not
    return ExitCode.OK


def show(text: str, document: Document, *, as_json: bool) -> None:
    """Print the result to stdout, all at once."""
    shown = json.dumps(document, indent=2) if as_json else text
    if shown:
        print_out(f"{shown}\n")


def print_out(text: str) -> bool:
    """Print a text to stdout. Characters that its encoding does not have are escaped.

    If the reader closes the pipe, the rest is dropped without an error.

    Returns:
        False if the reader has closed the pipe: there is no use in further texts.
    """
    try:
        print(text, end="", flush=True)
    except UnicodeEncodeError:  # raised before anything is written
        encoding = sys.stdout.encoding
        return print_out(text.encode(encoding, "backslashreplace").decode(encoding))
    except BrokenPipeError:
        # For example by `| head`. Without this, the interpreter reports the closed pipe when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True
