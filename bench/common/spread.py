"""Median, least and most of several measurements, and of ratios. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

import attrs


@attrs.frozen
class Spread:
    """Several measurements of one figure."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Spread:
        """Return the spread of measurements. Raises ValueError if there are none."""
        if not numbers:
            raise ValueError("a spread of no measurements")
        return cls(median(numbers), min(numbers), max(numbers))

    def text(self, show: Callable[[float], str]) -> str:
        """Return `median (least, most)`, each formatted by `show`."""
        return f"{show(self.median)} ({show(self.least)}, {show(self.most)})"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Return ours / theirs: the ratio of the medians, and the least and the most ratio of any round.

    Args:
        ours: A measurement for each round.
        theirs: A measurement for each round. Both contenders of a round run one after the other, so that a longer
            disturbance of the machine affects both.

    Raises:
        ValueError: The numbers of rounds differ, or are 0.
    """
    rounds = [a / b for a, b in zip(ours, theirs, strict=True)]
    if not rounds:
        raise ValueError("a ratio of no measurements")
    return Spread(median(ours) / median(theirs), min(rounds), max(rounds))
