"""`python -m bench [NAME [options]]`: runs the bench named; without a name all of them, each with its defaults."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType

from bench import BENCHES


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line names. The exit code is not 0 where a bench, all of which are run, had failures."""
    benches = {name: importlib.import_module(f"bench.{name}") for name in BENCHES}
    parser = argument_parser(benches)
    options = parser.parse_args(arguments)
    if options.bench is not None:
        return int(benches[options.bench].main(options))
    return max(int(benches[name].main(parser.parse_args([name]))) for name in benches)


def argument_parser(benches: Mapping[str, ModuleType]) -> argparse.ArgumentParser:
    """A subcommand for each bench, with the bench's own options."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Run benches; each compares Sarameya with its peers in one run and prints ratios.",
    )
    subparsers = parser.add_subparsers(dest="bench", metavar="NAME", title="benches (default: all)")
    for name, module in benches.items():
        text = module.__doc__ or ""
        one = subparsers.add_parser(
            name,
            help=text.splitlines()[0],
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_options(one)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
