"""A process that races another one for the links of a chain: `python -m tests.conformance.racer`, started by races.py.

For each link it prints a JSON line that says which of the two has appended it.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import sys
import time
from pathlib import Path

from sarameya_handlers.spark.tables.table import Phase
from tests.conformance.contenders import CONTENDERS, Place
from tests.conformance.owners import Owner, at

SPIN_SECONDS = 0.005
MOST_SECONDS = 120.0


class Barrier:
    """Lets two processes go on at the same time: within microseconds, since both watch a page of shared memory."""

    def __init__(self, file: Path, which: int) -> None:
        with file.open("r+b") as opened:
            self._pages = mmap.mmap(opened.fileno(), 2)
        self._which = which
        self._count = 0

    def meet(self) -> None:
        self._count = (self._count + 1) % 256
        self._pages[self._which] = self._count
        began = time.monotonic()
        # The other is here, or has been, and is on its way to the next meeting.
        while (self._pages[1 - self._which] - self._count) % 256 > 1:
            waited = time.monotonic() - began
            if waited > MOST_SECONDS:
                raise TimeoutError("the other racer does not come")
            if waited < SPIN_SECONDS:
                os.sched_yield()
            else:
                time.sleep(0.0001)  # Spark is at work for the other, and can do with the core


def main(name: str, which: int, races: int, barrier_file: str, *place_words: str) -> None:
    contender, place = CONTENDERS[name], Place.from_words(list(place_words))
    barrier, dice = Barrier(Path(barrier_file), which), random.Random(which)
    table = contender.table(place)
    with contender.sessions(place) as (spark,):
        if which == 0:
            table.open(spark)
        barrier.meet()
        table.open(spark)
        owner = Owner(table, spark, contender.shape)
        for race in range(races):
            # Side by side at the beginning, or right before the swap as far as the table tells.
            phase = Phase.WRITTEN if race % 2 and Phase.WRITTEN in contender.told else Phase.STAGED
            pause = dice.choice([0.0, 0.0, 0.0, dice.uniform(0, 0.002)])

            def start(pause: float = pause) -> None:
                barrier.meet()
                if pause:
                    time.sleep(pause)

            began = time.monotonic()
            settled, absent = owner.append_surely(dice.randrange(1, 9), at(phase, start))
            assert settled.link is not None
            said = type(owner.error).__name__ if owner.error else ""
            line = {
                "number": settled.link.number,
                "winner": settled.link.attempt,
                "outcome": settled.outcome.name,
                "said": said,
                "absent": absent,
                "seconds": time.monotonic() - began,
            }
            print(json.dumps(line), flush=True)
            # Nobody may be ahead by a link: it would find the next one taken, and not race for it.
            barrier.meet()


if __name__ == "__main__":
    racer_name, racer_which, racer_races, *rest = sys.argv[1:]
    main(racer_name, int(racer_which), int(racer_races), *rest)
