"""How a command that asks a cluster prints what it has found: all at once and at the end, to stdout.

What could not be had is raised then, to be told on stderr: the exit code is not 0.
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
from sarameya.service.failures import ExitCode
from sarameya.service.log_lines import configure_logging

Document = dict[str, Any]


@attrs.frozen(slots=True)
class Answer:
    """What a command has found, for programs and for people, and what it could not find or do."""

    document: Document
    text: str
    errors: tuple[SarameyaError, ...] = ()


def log_asking(event: Event) -> None:
    """The observer of commands that ask: what is tried again meanwhile is of no news, since either it succeeds or the
    failure is told at the end, in a line. At level debug it can be seen."""
    if isinstance(event, Retrying | ConnectionLost):
        log_event_at(event, logging.DEBUG)
    else:
        log_event(event)


def run_asking(args: argparse.Namespace, ask: Callable[[], Awaitable[Answer]]) -> int:
    """Ask under trio, and print the answer as `--json` says. Raises what it could not find or do."""
    configure_logging("debug" if args.debug else args.log_level)
    answer = trio.run(ask)
    show(answer.text, answer.document, as_json=args.json)
    if answer.errors:
        raise ExceptionGroup("", answer.errors)
    return ExitCode.OK


def show(text: str, document: Document, *, as_json: bool) -> None:
    """Print the result to stdout, all at once."""
    shown = json.dumps(document, indent=2) if as_json else text
    if shown:
        print_out(f"{shown}\n")


def print_out(text: str) -> None:
    """Print a text to stdout as it is, as far as somebody reads it."""
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:  # `| head` has seen enough; the interpreter would complain of it at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
