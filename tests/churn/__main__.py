"""`python -m tests.churn [SEED ...]`: live these schedules, or with `--hours` fresh ones, and print each.

Exit code 1 if one did not hold; its seed lives it again.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import traceback
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from tests.churn.simulation import HOURS, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.churn", description=__doc__)
    parser.add_argument("seeds", metavar="SEED", type=int, nargs="*", help="live these schedules")
    parser.add_argument("--hours", type=float, default=0, help="live fresh schedules, this many virtual hours in all")
    arguments = parser.parse_args()
    fresh = [random.getrandbits(32) for _ in range(round(arguments.hours / HOURS))]
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        lived = list(_printed(pool.map(_live, [*arguments.seeds, *fresh])))
    failed = lived.count(False)
    print(f"{len(lived)} schedules, {len(lived) * HOURS:g} virtual hours, {failed} failed")
    return 1 if failed else 0


def _printed(lived: Iterable[tuple[bool, str]]) -> Iterable[bool]:
    for held, text in lived:
        print(text, flush=True)
        yield held


def _live(seed: int) -> tuple[bool, str]:
    began = time.monotonic()
    try:
        report = run(seed, HOURS)
    except BaseException:
        return False, f"seed {seed} FAILED\n{traceback.format_exc()}"
    return True, f"{report} ({time.monotonic() - began:.1f} s)"


if __name__ == "__main__":
    sys.exit(main())
