"""Finds the last of files that are numbered without a gap. Pure."""

from __future__ import annotations

from collections.abc import Callable


def last_number(is_there: Callable[[int], bool], known: int = 0) -> int:
    """Return the last number of a run without gaps, by few look-ups, however long it is.

    Args:
        is_there: Returns whether a number is in the run. The run may grow meanwhile; it never shrinks.
        known: A number that is in the run, or the one before its first. Steps double from there.
    """
    step = 1
    while is_there(known + step):
        known += step
        step *= 2
    above = known + step
    while above - known > 1:
        middle = (known + above) // 2
        if is_there(middle):
            known = middle
        else:
            above = middle
    return known
