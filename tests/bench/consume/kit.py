"""Builders of sample outcomes and results for the tests of `bench.consume`."""

from __future__ import annotations

import attrs

from bench.common.filling import KEY_BYTES
from bench.common.results import Result
from bench.consume.contenders import CONTENDERS, Contender
from bench.consume.figures import add
from bench.consume.options import Combination
from bench.consume.programs.reading import Outcome

COMBINATION = Combination(200, "none", "random", 1_000)

_BY_NAME = {contender.name: contender for contender in CONTENDERS}


def contender(name: str) -> Contender:
    return _BY_NAME[name]


def outcome(seconds: float = 1.0, combination: Combination = COMBINATION, **changes: object) -> Outcome:
    """Return the outcome of a run that read all messages of `combination`, with `changes` to its attributes."""
    complete = Outcome(
        messages=combination.messages,
        bytes=combination.messages * (combination.size + KEY_BYTES),
        seconds=seconds,
        seconds_from_start=seconds + 0.5,
        reading_cpu_seconds=seconds,
        cpu_seconds=seconds + 0.25,
        peak_rss_bytes=50_000_000,
        version="1.2.3",
    )
    return attrs.evolve(complete, **changes)


def result(name: str, *seconds: float, failures: tuple[str, ...] = ()) -> Result:
    made = Result(name, contender(name).is_ours, failures=list(failures))
    for each in seconds:
        add(made, outcome(each), COMBINATION)
    return made
