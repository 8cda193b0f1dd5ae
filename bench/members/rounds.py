"""Runs members one after another, round by round. A member that fails has no figures; the others continue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import attrs
import trio

from bench.common.presenting import show_progress
from bench.common.results import Figures, Result
from bench.common.tables import Column
from bench.members.clients import Contender
from bench.members.running import MemberError


@attrs.frozen
class MemberOutcome:
    """Outcome of one run of a member."""

    figures: Sequence[Figures]
    """Figures of the run, or of several periods of it, all of the same length."""
    version: str
    """Version of the client."""


Run = Callable[[Contender, int], Awaitable[MemberOutcome]]
"""Runs a contender's member in the round of this number. Raises MemberError."""


def run_rounds(title: str, contenders: Sequence[Contender], repeats: int, run: Run, shown: Column) -> list[Result]:
    """Run each contender's member in each round. Return the result of each contender.

    Args:
        title: Title of progress.
        contenders: The contenders.
        repeats: Number of rounds.
        run: Runs one member.
        shown: Column of the figure that progress shows.
    """
    results = [Result(contender.name, contender.is_ours) for contender in contenders]
    for number in range(repeats):
        for contender, result in zip(contenders, results, strict=True):
            outcome = _attempt(run, contender, number)
            if isinstance(outcome, MemberOutcome):
                result.version = outcome.version
                for figures in outcome.figures:
                    result.add(figures)
                text = f"{shown.title} {shown.show(outcome.figures[-1][shown.key])}"
            else:
                result.add(outcome)
                text = outcome
            show_progress(f"{title}: round {number + 1} of {repeats}: {contender.name} {text}")
    return results


def _attempt(run: Run, contender: Contender, number: int) -> MemberOutcome | str:
    failures: list[str] = []
    try:
        return trio.run(run, contender, number)
    except* (MemberError, OSError) as raised:  # OSError: a measured process has ended
        failures += (str(error) for error in leaves(raised))
    return "; ".join(failures)


def leaves(raised: BaseException) -> list[BaseException]:
    """Return the errors in an exception group, also those of nested groups."""
    if isinstance(raised, BaseExceptionGroup):
        return [leaf for error in raised.exceptions for leaf in leaves(error)]
    return [raised]
