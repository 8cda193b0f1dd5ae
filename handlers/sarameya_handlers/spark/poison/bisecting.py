"""Which of many fail, where only a run of them can be tried at once. Pure: what a try is, the caller says.

Halves of what fails are tried, level by level, so that early on it is known how many there are at least: each run that
fails has one. k of n that fail are found in no more than 2 k (log2 n + 1) tries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import attrs

E = TypeVar("E")

Probe = Callable[[int, int], E | None]
"""Tries the run [low, high), which is not empty: what it fails with, or None."""


class TooManyError(Exception):
    """More fail than are to be found; `count` at least, of which one fails as `error` says."""

    def __init__(self, count: int, error: Any) -> None:
        super().__init__(count, error)
        self.count = count
        self.error = error


class TogetherError(Exception):
    """The run [low, high) fails with `error`, though none in it does alone."""

    def __init__(self, low: int, high: int, error: Any) -> None:
        super().__init__(low, high, error)
        self.low = low
        self.high = high
        self.error = error


@attrs.frozen(slots=True)
class _Run(Generic[E]):
    """[low, high), which fails with `error`; or is thought to, because a longer run fails whose other half does not:
    then `seen` is that longer run, and the error is its."""

    low: int
    high: int
    error: E
    seen: tuple[int, int] | None = None


def find_failing(count: int, error: E, probe: Probe[E], most: int) -> list[tuple[int, E]]:
    """Which of `count`, that together fail with `error`, fail alone, in order, each with what it fails with.

    Raises TooManyError for more than `most`, TogetherError where some fail together only. What `probe` raises is let
    through.
    """
    failing = [_Run(0, count, error)]
    while any(run.high - run.low > 1 for run in failing):
        if len(failing) > most:
            break
        halves: list[_Run[E]] = []
        for run in failing:
            halves += [run] if run.high - run.low == 1 else _halves(run, probe)
        failing = halves
    if len(failing) > most:
        raise TooManyError(len(failing), failing[0].error)
    return [(run.low, _alone(run, probe)) for run in failing]


def _halves(run: _Run[E], probe: Probe[E]) -> list[_Run[E]]:
    """Those halves that fail."""
    middle = (run.low + run.high) // 2
    first = probe(run.low, middle)
    if first is None:
        # Then it is the other one, or both together, which shows in the end: each halving would cost a try more.
        return [_Run(middle, run.high, run.error, run.seen or (run.low, run.high))]
    second = probe(middle, run.high)
    failing = [_Run(run.low, middle, first)]
    return failing if second is None else [*failing, _Run(middle, run.high, second)]


def _alone(run: _Run[E], probe: Probe[E]) -> E:
    if run.seen is None:
        return run.error
    error = probe(run.low, run.high)
    if error is None:
        raise TogetherError(*run.seen, run.error)
    return error
