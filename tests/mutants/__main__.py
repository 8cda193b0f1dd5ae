"""Command `python -m tests.mutants [NAME ...]`: put each listed bug into a copy of the code, and run its tests.

The exit code is 1 if a bug was not caught. `--jobs N` runs N mutants at once.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.mutants import Mutant, Outcome, read_mutants, run_tests


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help="beginnings of names of mutants (default: all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants at once (default: one for each core)")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for the tests of a mutant (default: 900)")
    arguments = parser.parse_args()
    chosen = [each for each in read_mutants() if each.name.startswith(tuple(arguments.names or [""]))]
    with (
        tempfile.TemporaryDirectory(prefix="sarameya-mutants-") as directory,
        ThreadPoolExecutor(arguments.jobs) as pool,
    ):

        def attempt(mutant: Mutant) -> Outcome:
            outcome, seen = run_tests(mutant, Path(directory) / mutant.name, timeout=arguments.timeout)
            print(f"{mutant.name}: {outcome} {seen}".rstrip(), flush=True)
            return outcome

        outcomes = list(pool.map(attempt, chosen))
    missed = sum(outcome in (Outcome.SURVIVED, Outcome.BROKEN) for outcome in outcomes)
    print(f"{len(outcomes)} mutants, {missed} not caught")
    return 1 if missed or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
