"""The schedule of a chaos run: a pure function of the seed.

A run is a sequence of rounds. Within a round each component has its own sequence of faults, one after the other; faults
of different components overlap. Times count from the start of the round. The seed decides the order, times and
durations of the faults, and the random numbers that pick their victims. Real time decides the rest: the instruction
that a fault hits, the owner of a partition, and the length of the calm between two rounds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import attrs

Seconds = tuple[float, float]
"""The shortest and the longest duration of a fault."""

_INSTANT: Seconds = (0.0, 0.0)
_SERVICE_FAULTS: Mapping[str, Seconds] = {
    "kill_worker": _INSTANT,
    "freeze_worker": (1.0, 40.0),
    "kill_jvm": _INSTANT,
    "kill_starting_jvm": _INSTANT,
    "freeze_jvm": (1.0, 20.0),
    "terminate": _INSTANT,
    "full_disk": (3.0, 25.0),
    "full_disk_at_start": (8.0, 25.0),
    "read_only": (3.0, 20.0),
}

KINDS: Mapping[str, Mapping[str, Seconds]] = {
    "kafka": {
        "kill_broker": (0.0, 15.0),
        "stop_broker": (0.0, 15.0),
        "freeze_broker": (1.0, 20.0),
        "add_partition": _INSTANT,
    },
    "parquet": {**_SERVICE_FAULTS, "kill_supervisor": _INSTANT, "freeze_supervisor": (1.0, 30.0)},
    "delta": {**_SERVICE_FAULTS, "optimize": _INSTANT},
    "iceberg": {
        **{kind: seconds for kind, seconds in _SERVICE_FAULTS.items() if kind != "kill_starting_jvm"},
        "rewrite": _INSTANT,
    },
    "machine": {
        "full_tmp": (3.0, 20.0),
        "compact": _INSTANT,
        "kill_compact": _INSTANT,
        "sweep": _INSTANT,
        "verify": _INSTANT,
    },
}
"""Component -> kind of fault -> its duration. Iceberg's Spark is a Connect server, which no service starts."""

SERVICES = ("parquet", "delta", "iceberg")
MAINTENANCE = ("compact", "kill_compact", "sweep", "verify")
"""Commands on the Parquet table that run while its service does."""

ROUND_SECONDS = 150.0
GAP: Seconds = (5.0, 45.0)
"""The shortest and the longest pause between two faults of one component."""


@attrs.frozen(order=True)
class Fault:
    """A fault of one component at one time."""

    at: float
    component: str
    kind: str
    seconds: float
    draw: float
    """A random number in [0, 1) that picks the victim or the moment, for faults that need one."""

    def __str__(self) -> str:
        duration = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.component}: {self.kind}{duration} (draw {self.draw:.2f})"


def concerned(fault: Fault) -> tuple[str, ...]:
    """Return the services that have to recover from a fault."""
    if fault.component in SERVICES:
        return (fault.component,)
    return ("parquet",) if fault.kind in MAINTENANCE else SERVICES


def rounds(seed: int, seconds: float = ROUND_SECONDS) -> Iterator[tuple[Fault, ...]]:
    """Yield the faults of each round, sorted by time. The caller decides when to stop.

    Args:
        seed: the seed of the run.
        seconds: the part of a round in which faults start, counted from its start.
    """
    decks = {component: _deck(random.Random(f"{seed} {component}"), kinds) for component, kinds in KINDS.items()}
    for number in range(1_000_000):
        rng = random.Random(f"{seed} round {number}")
        yield tuple(
            sorted(fault for component in KINDS for fault in _faults(rng, component, decks[component], seconds))
        )


def _faults(rng: random.Random, component: str, deck: Iterator[str], seconds: float) -> Iterator[Fault]:
    """Yield the faults of one component in one round."""
    at = rng.uniform(0, GAP[1])
    while at < seconds:
        kind = next(deck)
        duration = rng.uniform(*KINDS[component][kind])
        yield Fault(at, component, kind, duration, rng.random())
        at += duration + rng.uniform(*GAP)


def _deck(rng: random.Random, kinds: Mapping[str, Seconds]) -> Iterator[str]:
    """Yield all kinds in random order, then all of them again in another order, and so on."""
    while True:
        yield from rng.sample(sorted(kinds), len(kinds))
