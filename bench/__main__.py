"""`python -m bench [NAME ...]`: runs the benches named, or all of them."""

from __future__ import annotations

import argparse
import importlib
from types import ModuleType

from bench import BENCHES


def main() -> int:
    benches = {name: importlib.import_module(f"bench.{name}") for name in BENCHES}
    parser = _parser(benches)
    names = parser.parse_args().names or list(benches)
    if unknown := [name for name in names if name not in benches]:
        parser.error(f"no such bench: {', '.join(unknown)} (there are: {', '.join(benches) or 'none yet'})")
    if not names:
        print("There are no benches yet.")
    for name in names:
        benches[name].main()
    return 0


def _parser(benches: dict[str, ModuleType]) -> argparse.ArgumentParser:
    listed = [f"  {name}  {(module.__doc__ or '').splitlines()[0]}" for name, module in benches.items()]
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Run benches; each compares Sarameya with its peers in one run and prints ratios.",
        epilog="\n".join(["benches:", *(listed or ["  none yet"])]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="run these only (default: all)")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
