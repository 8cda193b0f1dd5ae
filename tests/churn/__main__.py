"""Churn schedules, from the command line. Exit code 1 if one did not hold, or differs from its recording.

`python -m tests.churn [SEED ...]` lives these schedules, or with `--hours` fresh ones, and prints each.
`--record FILE --seeds A:B` records short schedules: a line "SEED DIGEST" for each.
`--compare FILE` records those of a file again, and prints the seeds whose text is another one.
`--text SEED` prints the text of a recording.
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
from pathlib import Path

from tests.churn.recording import digest, record_seed
from tests.churn.simulation import HOURS, run


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.churn", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seeds_to_live", metavar="SEED", type=int, nargs="*", help="live these schedules")
    parser.add_argument("--hours", type=float, default=0, help="live fresh schedules, this many virtual hours in all")
    parser.add_argument("--record", metavar="FILE", type=Path, help="record the schedules of --seeds into FILE")
    parser.add_argument("--compare", metavar="FILE", type=Path, help="record again what FILE has, and compare")
    parser.add_argument("--text", metavar="SEED", type=int, help="print the text of a recording")
    parser.add_argument("--seeds", metavar="A:B", type=_range, default=None, help="the seeds from A to before B")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: one for each core)")
    arguments = parser.parse_args()
    if arguments.text is not None:
        print(record_seed(arguments.text), end="")
        return 0
    if arguments.record is not None:
        return _record(arguments.record, arguments.seeds or range(100), arguments.jobs)
    if arguments.compare is not None:
        return _compare(arguments.compare, arguments.seeds, arguments.jobs)
    fresh = [random.getrandbits(32) for _ in range(round(arguments.hours / HOURS))]
    with ProcessPoolExecutor(max_workers=arguments.jobs) as pool:
        lived = list(_printed(pool.map(_live, [*arguments.seeds_to_live, *fresh])))
    failed = lived.count(False)
    print(f"{len(lived)} schedules, {len(lived) * HOURS:g} virtual hours, {failed} failed")
    return 1 if failed else 0


def _range(text: str) -> range:
    first, _, end = text.partition(":")
    return range(int(first), int(end))


def _record(path: Path, seeds: Iterable[int], jobs: int) -> int:
    with ProcessPoolExecutor(max_workers=jobs) as pool, path.open("w", encoding="utf-8") as file:
        for seed, found in pool.map(_recorded, seeds, chunksize=10):
            print(seed, found, file=file, flush=True)
    return 0


def _compare(path: Path, seeds: range | None, jobs: int) -> int:
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    before = {int(seed): found for seed, found in lines if seeds is None or int(seed) in seeds}
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        after = pool.map(_recorded, before, chunksize=10)
        different = list(_differing(before, after))
    print(f"{len(before)} recordings, {len(different)} differ")
    return 1 if different else 0


def _differing(before: dict[int, str], after: Iterable[tuple[int, str]]) -> Iterable[int]:
    for seed, found in after:
        if found != before[seed]:
            print(f"seed {seed}: {before[seed]} before, {found} now", flush=True)
            yield seed


def _recorded(seed: int) -> tuple[int, str]:
    try:
        return seed, digest(record_seed(seed))
    except BaseException as error:
        return seed, f"FAILED:{type(error).__name__}"


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
