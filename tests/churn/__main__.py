"""Run churn schedules, or compare recordings. The exit code is 1 if a schedule fails or a recording differs.

`python -m tests.churn [SEED ...]` runs these schedules, or with `--hours` fresh ones, and prints a report of each.
`--record FILE --seeds A:B` records short schedules: a line "SEED DIGEST" for each.
`--compare FILE` records the schedules of a file again, and prints the seeds whose recording has changed or failed.
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

_FAILED = "FAILED:"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.churn", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seeds_to_run", metavar="SEED", type=int, nargs="*", help="run these schedules")
    parser.add_argument("--hours", type=float, default=0, help="run fresh schedules, this many virtual hours in all")
    parser.add_argument("--record", metavar="FILE", type=Path, help="record the schedules of --seeds into FILE")
    parser.add_argument("--compare", metavar="FILE", type=Path, help="record the seeds of FILE again, and compare")
    parser.add_argument("--text", metavar="SEED", type=int, help="print the text of a recording")
    parser.add_argument("--seeds", metavar="A:B", type=_range, default=None, help="the seeds from A up to B - 1")
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
        succeeded = list(_print_reports(pool.map(_run, [*arguments.seeds_to_run, *fresh])))
    failed = succeeded.count(False)
    print(f"{len(succeeded)} schedules, {len(succeeded) * HOURS:g} virtual hours, {failed} failed")
    return 1 if failed else 0


def _range(text: str) -> range:
    first, _, end = text.partition(":")
    return range(int(first), int(end))


def _record(path: Path, seeds: Iterable[int], jobs: int) -> int:
    with ProcessPoolExecutor(max_workers=jobs) as pool, path.open("w", encoding="utf-8") as file:
        for seed, recorded in pool.map(_digest_of, seeds, chunksize=10):
            print(seed, recorded, file=file, flush=True)
    return 0


def _compare(path: Path, seeds: range | None, jobs: int) -> int:
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    before = {int(seed): recorded for seed, recorded in lines if seeds is None or int(seed) in seeds}
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        after = pool.map(_digest_of, before, chunksize=10)
        different = list(_print_differences(before, after))
    print(f"{len(before)} recordings, {len(different)} differ")
    return 1 if different else 0


def _print_differences(before: dict[int, str], after: Iterable[tuple[int, str]]) -> Iterable[int]:
    """Print and yield each seed whose digest has changed, or whose recording has failed."""
    for seed, recorded in after:
        if recorded != before[seed] or recorded.startswith(_FAILED):
            print(f"seed {seed}: {before[seed]} before, {recorded} now", flush=True)
            yield seed


def _digest_of(seed: int) -> tuple[int, str]:
    """Return the seed and the digest of its recording, or the error that ended the recording."""
    try:
        return seed, digest(record_seed(seed))
    except Exception as error:
        return seed, f"{_FAILED}{type(error).__name__}"


def _print_reports(results: Iterable[tuple[bool, str]]) -> Iterable[bool]:
    """Print each report, and yield whether its schedule succeeded."""
    for succeeded, text in results:
        print(text, flush=True)
        yield succeeded


def _run(seed: int) -> tuple[bool, str]:
    """Run one schedule. Return whether it succeeded, and its report."""
    began = time.monotonic()
    try:
        report = run(seed, HOURS)
    except BaseException:
        return False, f"seed {seed} FAILED\n{traceback.format_exc()}"
    return True, f"{report} ({time.monotonic() - began:.1f} s)"


if __name__ == "__main__":
    sys.exit(main())
