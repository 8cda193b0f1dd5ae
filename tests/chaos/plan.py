"""The schedule of a chaos run: a pure function of the seed.

A run is a row of rounds. Within a round each component has its own row of faults, one after the other, and the
components' rows overlap. `at` counts from the start of the round, so the seed decides the sequence, the times, the
durations and the draws by which victims are picked. Real time decides the rest: the instruction that a fault hits, the
owner of a partition, and the length of the calm between two rounds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import attrs

Seconds = tuple[float, float]
"""The least and the most that a fault lasts."""

_AT_ONCE: Seconds = (0.0, 0.0)
_SERVICE: Mapping[str, Seconds] = {
    "kill_worker": _AT_ONCE,
    "freeze_worker": (1.0, 40.0),
    "kill_jvm": _AT_ONCE,
    "kill_starting_jvm": _AT_ONCE,
    "freeze_jvm": (1.0, 20.0),
    "terminate": _AT_ONCE,
    "full_disk": (3.0, 25.0),
    "full_disk_at_start": (8.0, 25.0),
    "read_only": (3.0, 20.0),
}

KINDS: Mapping[str, Mapping[str, Seconds]] = {
    "kafka": {
        "kill_broker": (0.0, 15.0),
        "stop_broker": (0.0, 15.0),
        "freeze_broker": (1.0, 20.0),
        "add_partition": _AT_ONCE,
    },
    "parquet": {**_SERVICE, "kill_supervisor": _AT_ONCE, "freeze_supervisor": (1.0, 30.0)},
    "delta": {**_SERVICE, "optimize": _AT_ONCE},
    "iceberg": {
        **{kind: seconds for kind, seconds in _SERVICE.items() if kind != "kill_starting_jvm"},
        "rewrite": _AT_ONCE,
    },
    "machine": {
        "full_tmp": (3.0, 20.0),
        "compact": _AT_ONCE,
        "kill_compact": _AT_ONCE,
        "sweep": _AT_ONCE,
        "verify": _AT_ONCE,
    },
}
"""Component -> kind of fault -> its duration. Iceberg's Spark is a Connect server, which no service starts."""

SERVICES = ("parquet", "delta", "iceberg")
MAINTENANCE = ("compact", "kill_compact", "sweep", "verify")
"""Of the Parquet table, beside its service."""

ROUND_SECONDS = 150.0
GAP: Seconds = (5.0, 45.0)
"""Between two faults of one component."""


@attrs.frozen(order=True)
class Fault:
    """A fault of one component at one time."""

    at: float
    component: str
    kind: str
    seconds: float
    draw: float
    """In [0, 1): picks the victim, or the moment, where the fault asks for one."""

    def __str__(self) -> str:
        lasts = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.component}: {self.kind}{lasts} (draw {self.draw:.2f})"


def concerned(fault: Fault) -> tuple[str, ...]:
    """Return the services that have to recover from a fault."""
    if fault.component in SERVICES:
        return (fault.component,)
    return ("parquet",) if fault.kind in MAINTENANCE else SERVICES


def rounds(seed: int, seconds: float = ROUND_SECONDS) -> Iterator[tuple[Fault, ...]]:
    """Yield the faults of each round in order of time, without end; `seconds` is how long faults begin."""
    decks = {component: _deck(random.Random(f"{seed} {component}"), kinds) for component, kinds in KINDS.items()}
    for number in range(1_000_000):
        rng = random.Random(f"{seed} round {number}")
        yield tuple(sorted(fault for component in KINDS for fault in _row(rng, component, decks[component], seconds)))


def _row(rng: random.Random, component: str, deck: Iterator[str], seconds: float) -> Iterator[Fault]:
    at = rng.uniform(0, GAP[1])
    while at < seconds:
        kind = next(deck)
        lasts = rng.uniform(*KINDS[component][kind])
        yield Fault(at, component, kind, lasts, rng.random())
        at += lasts + rng.uniform(*GAP)


def _deck(rng: random.Random, kinds: Mapping[str, Seconds]) -> Iterator[str]:
    """Deal every kind once, shuffled, before any comes again."""
    while True:
        yield from rng.sample(sorted(kinds), len(kinds))
