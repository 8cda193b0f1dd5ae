"""`python -m bench [NAME [options]]`: run one bench; without a name all of them, each with its defaults.

`python -m bench compare A B` runs benches with two commits and prints ratios. `--results DIR` before a name writes each
bench's figures to DIR/NAME.json, which `python -m bench.page DIR` puts into the documentation.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from bench import BENCHES, compare


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench that the command line names, or all of them. Return the exit code.

    A bench with failures does not stop the others; the exit code is not 0 then.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    # One bench may run with the product of an older commit, which lacks what another one imports.
    benches = load_benches([name for name in arguments[:1] if name in BENCHES] or BENCHES)
    parser = argument_parser(benches)
    options = parser.parse_args(arguments)
    if options.bench == "compare":
        return compare.main(options, benches)
    if options.bench is not None:
        return _run(options.bench, benches[options.bench], options, options.results)
    return max(_run(name, bench, parser.parse_args([name]), options.results) for name, bench in benches.items())


def _run(name: str, bench: ModuleType, options: argparse.Namespace, results: Path | None) -> int:
    if results is not None and options.json is None:
        results.mkdir(parents=True, exist_ok=True)
        options.json = results / f"{name}.json"
    return int(bench.main(options))


def load_benches(names: Iterable[str] = BENCHES) -> dict[str, ModuleType]:
    """Return the package of each of these benches, by the bench's name."""
    return {name: importlib.import_module(f"bench.{name.replace('-', '_')}") for name in names}


def argument_parser(benches: Mapping[str, ModuleType]) -> argparse.ArgumentParser:
    """Return a parser with a subcommand for each bench, with the bench's own options, and `compare`."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Run benches; each compares Sarameya with its peers in one run and prints ratios.",
    )
    parser.add_argument("--results", type=Path, metavar="DIR", help="write each bench's figures to DIR/NAME.json")
    subparsers = parser.add_subparsers(dest="bench", metavar="NAME", title="benches (default: all)")
    for name, module in benches.items():
        text = module.__doc__ or ""
        bench_parser = subparsers.add_parser(
            name,
            help=text.splitlines()[0],
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_options(bench_parser)
    text = compare.__doc__ or ""
    compare_parser = subparsers.add_parser(
        "compare",
        help=text.splitlines()[0],
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    compare.add_options(compare_parser, benches)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
