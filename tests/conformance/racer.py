"""A process that races another process for the links of a chain. `test_races.py` starts both.

After each race it prints a JSON line with the link that has won, and with the outcome of its own attempt.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.tables.table import Phase, Table
from tests.conformance.contenders import CONTENDERS, Place
from tests.conformance.owners import Owner, at

SPIN_SECONDS = 0.005
OPENS = 5
MOST_SECONDS = 120.0


class Barrier:
    """A barrier of two processes. Both continue within microseconds, since both poll a page of shared memory."""

    def __init__(self, file: Path, which: int) -> None:
        with file.open("r+b") as opened:
            self._pages = mmap.mmap(opened.fileno(), 2)
        self._which = which
        self._count = 0

    def wait(self) -> None:
        """Wait until the other process has called this as often.

        Raises:
            TimeoutError: The other process has not reached the barrier in time.
        """
        self._count = (self._count + 1) % 256
        self._pages[self._which] = self._count
        began = time.monotonic()
        # Until the other process has the same count, or the next one: it may have left this barrier for the next.
        while (self._pages[1 - self._which] - self._count) % 256 > 1:
            waited = time.monotonic() - began
            if waited > MOST_SECONDS:
                raise TimeoutError("the other racer did not reach the barrier")
            if waited < SPIN_SECONDS:
                os.sched_yield()
            else:
                time.sleep(0.0001)  # the other racer waits for Spark, which needs the core


def _open(table: Table, spark: Any) -> None:
    """Open the table, as a sink does: again after an error that passes.

    The S3 gateway refuses an object, with 409, while it removes the directory that another one was the last in.
    """
    for attempt in range(OPENS):
        try:
            table.open(spark)
            return
        except LandingError:
            if attempt == OPENS - 1:
                raise
            time.sleep(0.1)


def main(name: str, which: int, races: int, barrier_file: str, *place_arguments: str) -> None:
    """Race for links.

    Args:
        name: the name of the contender.
        which: the number of this process, 0 or 1.
        races: the number of links.
        barrier_file: the file of the barrier's shared memory.
        place_arguments: the place, as `Place.to_arguments` returns it.
    """
    contender, place = CONTENDERS[name], Place.from_arguments(list(place_arguments))
    barrier, rng = Barrier(Path(barrier_file), which), random.Random(which)
    table = contender.table(place)
    with contender.sessions(place) as (spark,):
        if which == 0:
            table.open(spark)
        barrier.wait()
        _open(table, spark)
        owner = Owner(table, spark, contender.shape)
        for race in range(races):
            # Both start the landing together, or, in every other race, the append of the link, if the table reports it.
            phase = Phase.WRITTEN if race % 2 and Phase.WRITTEN in contender.phases else Phase.STAGED
            pause = rng.choice([0.0, 0.0, 0.0, rng.uniform(0, 0.002)])

            def start(pause: float = pause) -> None:
                barrier.wait()
                if pause:
                    time.sleep(pause)

            began = time.monotonic()
            settled, absent = owner.append_until_present(rng.randrange(1, 9), at(phase, start))
            assert settled.link is not None
            error = type(owner.error).__name__ if owner.error else ""
            line = {
                "number": settled.link.number,
                "winner": settled.link.attempt,
                "outcome": settled.outcome.name,
                "error": error,
                "absent": absent,
                "seconds": time.monotonic() - began,
            }
            print(json.dumps(line), flush=True)
            # Without this barrier one process could append the next link before the other one tries: no race.
            barrier.wait()


if __name__ == "__main__":
    contender_name, number, race_count, *rest = sys.argv[1:]
    main(contender_name, int(number), int(race_count), *rest)
