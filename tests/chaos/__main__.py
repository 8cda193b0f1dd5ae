"""Run three services on real Kafka under faults, and check that each record lands exactly once.

Usage: `python -m tests.chaos [--minutes M] [--seed N]`. `tests/README.md` describes the faults and the checks. The exit
code is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
from itertools import islice

from tests.chaos.disks import enter
from tests.chaos.plan import ROUND_SECONDS, rounds
from tests.integration.peers.running import ROOT


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="minutes with faults; the last round is completed")
    parser.add_argument("--seed", type=int, default=random.getrandbits(32), help="seed of a run to repeat")
    parser.add_argument("--plan", type=int, metavar="ROUNDS", help="only print the faults of the seed's first ROUNDS")
    arguments = parser.parse_args()
    if arguments.plan is not None:
        _print_plan(arguments.seed, arguments.plan)
        return 0
    enter(["-m", "tests.chaos", "--minutes", str(arguments.minutes), "--seed", str(arguments.seed)])
    # SIGTERM must end the run as Ctrl-C does: brokers and services are stopped, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from tests.chaos.running import run

    directory = ROOT / "build" / "chaos" / str(arguments.seed)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    print(f"repeat with: make chaos MINUTES={arguments.minutes:g} SEED={arguments.seed}", flush=True)
    return 0 if run(arguments.seed, arguments.minutes, directory) else 1


def _print_plan(seed: int, count: int) -> None:
    for number, faults in enumerate(islice(rounds(seed, ROUND_SECONDS), count)):
        for fault in faults:
            print(f"round {number}  {fault.at:6.1f}  {fault}")


if __name__ == "__main__":
    sys.exit(main())
