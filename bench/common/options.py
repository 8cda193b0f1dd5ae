"""What all benches can be told on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def add_usual_options(
    parser: argparse.ArgumentParser, *, quick: str, repeats: int, contenders: Sequence[str] = ()
) -> None:
    """`quick` is what is left out then, `repeats` how many rounds there are without an option."""
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too, for programs")
    parser.add_argument("--repeats", type=positive, metavar="N", help=f"rounds (default: {repeats}, quick: 1)")
    if contenders:
        parser.add_argument(
            "--contenders",
            nargs="+",
            default=list(contenders),
            choices=list(contenders),
            metavar="NAME",
            help=f"only these; there are: {', '.join(contenders)}",
        )


def rounds_asked(options: argparse.Namespace, repeats: int) -> int:
    """How many the options ask for."""
    return int(options.repeats or (1 if options.quick else repeats))


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number
