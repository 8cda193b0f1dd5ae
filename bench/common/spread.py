"""Several measurements of one thing as one figure: the median, with the least and the most. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

import attrs


@attrs.frozen
class Spread:
    median: float
    least: float
    most: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Spread:
        """Raises ValueError for none."""
        if not numbers:
            raise ValueError("a spread of no measurements")
        return cls(median(numbers), min(numbers), max(numbers))

    def text(self, show: Callable[[float], str]) -> str:
        """`median (least, most)`, each as `show` has it."""
        return f"{show(self.median)} ({show(self.least)}, {show(self.most)})"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Ours / theirs: the ratio of the medians, and the least and the most of any round's own.

    Measurements of the same round stand at the same place: they were taken one after the other, so that what
    disturbed the machine for longer disturbed both. Raises ValueError where the rounds are not as many, or none.
    """
    rounds = [a / b for a, b in zip(ours, theirs, strict=True)]
    if not rounds:
        raise ValueError("a ratio of no measurements")
    return Spread(median(ours) / median(theirs), min(rounds), max(rounds))
