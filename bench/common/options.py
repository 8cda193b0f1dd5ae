"""Command-line options that all benches have."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def add_usual_options(
    parser: argparse.ArgumentParser, *, quick: str, repeats: int, contenders: Sequence[str] = ()
) -> None:
    """Add the options that all benches have.

    Args:
        parser: Parser of the bench.
        quick: Help of `--quick`: how it differs from a whole run.
        repeats: Default number of rounds.
        contenders: Names that `--contenders` accepts. If empty, there is no such option.
    """
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE, for programs")
    parser.add_argument("--repeats", type=positive, metavar="N", help=f"rounds (default: {repeats}, quick: 1)")
    if contenders:
        parser.add_argument(
            "--contenders",
            nargs="+",
            default=list(contenders),
            choices=list(contenders),
            metavar="NAME",
            help=f"run only these (default: all of {', '.join(contenders)})",
        )


def rounds_asked(options: argparse.Namespace, repeats: int) -> int:
    """Return the number of rounds that the options ask for."""
    return int(options.repeats or (1 if options.quick else repeats))


def positive(text: str) -> int:
    """Parse a whole number of at least 1. Raises ValueError."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number
