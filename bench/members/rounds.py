"""Members run one after another, round by round; one that fails has no figures, and the others go on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import attrs
import trio

from bench.common.presenting import say
from bench.common.results import Figures, Result
from bench.common.tables import Column
from bench.members.clients import Contender
from bench.members.running import MemberError


@attrs.frozen
class Ran:
    """What one run of a member came to."""

    figures: Sequence[Figures]
    """One, or those of several times of the same length, one after the other."""
    version: str
    """The client's."""


Run = Callable[[Contender, int], Awaitable[Ran]]
"""Runs a contender's member, in the round of that number. Raises MemberError."""


def play(title: str, contenders: Sequence[Contender], repeats: int, run: Run, shown: Column) -> list[Result]:
    """The results of each contender. Progress is told by the figure that `shown` shows."""
    results = [Result(contender.name, contender.is_ours) for contender in contenders]
    for number in range(repeats):
        for contender, result in zip(contenders, results, strict=True):
            ran = _attempt(run, contender, number)
            if isinstance(ran, Ran):
                result.version = ran.version
                for figures in ran.figures:
                    result.add(figures)
                told = f"{shown.title} {shown.show(ran.figures[-1][shown.key])}"
            else:
                result.add(ran)
                told = ran
            say(f"{title}: round {number + 1} of {repeats}: {contender.name} {told}")
    return results


def _attempt(run: Run, contender: Contender, number: int) -> Ran | str:
    failures: list[str] = []
    try:
        return trio.run(run, contender, number)
    except* (MemberError, OSError) as raised:  # OSError: a process that is looked at is gone
        failures += (str(error) for error in leaves(raised))
    return "; ".join(failures)


def leaves(raised: BaseException) -> list[BaseException]:
    """What an exception group is made of, groups in it taken apart."""
    if isinstance(raised, BaseExceptionGroup):
        return [leaf for error in raised.exceptions for leaf in leaves(error)]
    return [raised]
