"""Find the items that fail among many, by tries of runs of consecutive items. Pure: the caller supplies the probe.

Halves of failing runs are tried level by level. Each failing run has at least one failing item, so the minimum number
of failing items is known early. k failing items of n are found in at most 2 k (log2 n + 1) tries. The number of tries
is limited.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log2
from typing import Any, Generic, TypeVar

import attrs

E = TypeVar("E")

Probe = Callable[[int, int], E | None]
"""Function that tries the non-empty run [low, high). Returns the error with which the run fails, or None."""


class TooManyError(Exception):
    """More than the allowed number of items fail: at least `count`, one of them with `error`."""

    def __init__(self, count: int, error: Any) -> None:
        super().__init__(count, error)
        self.count = count
        self.error = error


class TooManyTriesError(Exception):
    """Finding the failing items takes more tries than allowed. At least `count` fail, one of them with `error`."""

    def __init__(self, count: int, error: Any) -> None:
        super().__init__(count, error)
        self.count = count
        self.error = error


class TogetherError(Exception):
    """The run [low, high) fails with `error`, although none of its items fails alone."""

    def __init__(self, low: int, high: int, error: Any) -> None:
        super().__init__(low, high, error)
        self.low = low
        self.high = high
        self.error = error


@attrs.frozen(slots=True)
class _FailingRun(Generic[E]):
    """The run [low, high), which fails with `error`.

    Attributes:
        failed_parent: Set if the run itself was not tried: the longer run that failed with `error`. This run is the
            half of it that must fail, since the other half does not.
    """

    low: int
    high: int
    error: E
    failed_parent: tuple[int, int] | None = None


def find_failing(count: int, error: E, probe: Probe[E], limit: int, *, tries: int = 10**9) -> list[tuple[int, E]]:
    """Find which of `count` items fail alone. Together they fail with `error`.

    Args:
        count: Number of items.
        error: Error with which they fail together.
        probe: Tries a run of items. Its exceptions pass through.
        limit: Maximum number of failing items.
        tries: Maximum number of calls of `probe`.

    Returns:
        The index of each failing item, in order, and its error.

    Raises:
        TooManyError: More than `limit` items fail.
        TooManyTriesError: More than `tries` calls are needed. Raised as soon as that is certain, usually much earlier.
        TogetherError: Some items fail only together.
    """
    limited = _LimitedProbe(probe, tries)
    failing = [_FailingRun(0, count, error)]
    while any(run.high - run.low > 1 for run in failing):
        if len(failing) > limit:
            break
        if limited.tries < sum(ceil(log2(run.high - run.low)) for run in failing):
            raise TooManyTriesError(len(failing), failing[0].error)
        halves: list[_FailingRun[E]] = []
        for run in failing:
            halves += [run] if run.high - run.low == 1 else _halves(run, limited)
        failing = halves
    if len(failing) > limit:
        raise TooManyError(len(failing), failing[0].error)
    return [(run.low, _confirm(run, limited)) for run in failing]


@attrs.define(slots=True)
class _LimitedProbe(Generic[E]):
    """A probe with a limited number of calls."""

    probe: Probe[E]
    tries: int
    """Number of calls that are left."""
    failed: int = 0
    """Number of single items that failed."""
    error: Any = None
    """The last error."""

    def __call__(self, low: int, high: int) -> E | None:
        if self.tries == 0:
            raise TooManyTriesError(max(self.failed, 1), self.error)
        self.tries -= 1
        found = self.probe(low, high)
        if found is not None:
            self.error = found
            self.failed += high - low == 1
        return found


def _halves(run: _FailingRun[E], probe: Probe[E]) -> list[_FailingRun[E]]:
    """Return the halves of a failing run that fail."""
    # Not the exact middle: runs of a power of two recur if the same items are searched again with more items after
    # them, and results of runs are cached.
    middle = run.low + (1 << (run.high - run.low - 1).bit_length() - 1)
    first = probe(run.low, middle)
    if first is None:
        # Then the other half fails, or only both together: `_confirm` finds that at the end. To try this half now would
        # cost a call at each level.
        return [_FailingRun(middle, run.high, run.error, run.failed_parent or (run.low, run.high))]
    second = probe(middle, run.high)
    failing = [_FailingRun(run.low, middle, first)]
    return failing if second is None else [*failing, _FailingRun(middle, run.high, second)]


def _confirm(run: _FailingRun[E], probe: Probe[E]) -> E:
    """Return the error of a single item. Try the item if that was not done yet."""
    if run.failed_parent is None:
        return run.error
    error = probe(run.low, run.high)
    if error is None:
        raise TogetherError(*run.failed_parent, run.error)
    return error
