"""Which of many fail, where only a run of them can be tried at once. Pure: what a try is, the caller says.

Halves of what fails are tried, level by level, so that early on it is known how many there are at least: each run that
fails has one. k of n that fail are found in no more than 2 k (log2 n + 1) tries, and never in more than are allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log2
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


class TooManyTriesError(Exception):
    """To find those that fail takes more tries than are allowed; `count` fail at least, one of them as `error` says."""

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


def find_failing(count: int, error: E, probe: Probe[E], most: int, *, tries: int = 10**9) -> list[tuple[int, E]]:
    """Find which of `count`, that together fail with `error`, fail alone.

    Args:
        count: How many there are.
        error: What they fail with together.
        probe: Tries a run of them. What it raises is let through.
        most: How many are to be found at most.
        tries: Calls of `probe` at most.

    Returns:
        The place of each, in order, and what it fails with.

    Raises:
        TooManyError: More than `most` fail.
        TooManyTriesError: It would take more tries. Raised as soon as that is sure, which is mostly much earlier.
        TogetherError: Some fail together only.
    """
    left = _Allowed(probe, tries)
    failing = [_Run(0, count, error)]
    while any(run.high - run.low > 1 for run in failing):
        if len(failing) > most:
            break
        if left.tries < sum(ceil(log2(run.high - run.low)) for run in failing):
            raise TooManyTriesError(len(failing), failing[0].error)
        halves: list[_Run[E]] = []
        for run in failing:
            halves += [run] if run.high - run.low == 1 else _halves(run, left)
        failing = halves
    if len(failing) > most:
        raise TooManyError(len(failing), failing[0].error)
    return [(run.low, _alone(run, left)) for run in failing]


@attrs.define(slots=True)
class _Allowed(Generic[E]):
    """A probe, and how often it may still be called."""

    probe: Probe[E]
    tries: int
    failed: int = 0
    error: Any = None

    def __call__(self, low: int, high: int) -> E | None:
        if self.tries == 0:
            raise TooManyTriesError(max(self.failed, 1), self.error)
        self.tries -= 1
        found = self.probe(low, high)
        if found is not None:
            self.error = found
            self.failed += high - low == 1
        return found


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
