"""`python -m tests.chaos [--minutes M] [--seed N]`: real Kafka, three services, faults; each record exactly once.

`tests/README.md` says what is done and what is checked. Exit code 1 if anything did not hold.
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
    parser.add_argument("--minutes", type=float, default=10, help="how long faults go on; the last round is finished")
    parser.add_argument("--seed", type=int, default=random.getrandbits(32), help="the schedule of a run to live again")
    parser.add_argument("--plan", type=int, metavar="ROUNDS", help="print the seed's faults of so many rounds, and end")
    arguments = parser.parse_args()
    if arguments.plan is not None:
        _print_plan(arguments.seed, arguments.plan)
        return 0
    enter(["-m", "tests.chaos", "--minutes", str(arguments.minutes), "--seed", str(arguments.seed)])
    # Ends as by Ctrl-C: brokers and services end, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from tests.chaos.running import run

    directory = ROOT / "build" / "chaos" / str(arguments.seed)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    print(f"again: make chaos MINUTES={arguments.minutes:g} SEED={arguments.seed}", flush=True)
    return 0 if run(arguments.seed, arguments.minutes, directory) else 1


def _print_plan(seed: int, count: int) -> None:
    for number, faults in enumerate(islice(rounds(seed, ROUND_SECONDS), count)):
        for fault in faults:
            print(f"round {number}  {fault.at:6.1f}  {fault}")


if __name__ == "__main__":
    sys.exit(main())
