"""How fast the neighbours of a slow partition are read, and what they lose. Pure. Rates are messages a second."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from bench.common.results import Figures, Result
from bench.common.tables import Column, Goal, Goals, Row, Table, checks, ratios
from bench.members.telling import Line

BESIDE = "beside"
LOST = "lost"
COLUMNS = (
    Column("alone", "alone, 1000/s", scale=1e-3),
    Column(BESIDE, "beside a slow one, 1000/s", scale=1e-3, digits=1),
    Column(LOST, "lost, %", scale=100, digits=1),
    Column("slow", "the slow one, messages/s", digits=1),
)
GOALS: Goals = {("sarameya", LOST): Goal(0.05, at_most=True)}


@attrs.frozen
class Reading:
    """What one run has read in its time."""

    others: float
    slow: float


def has_read(lines: Sequence[Line], messages: int, seconds: float) -> bool:
    """Whether a run has told enough: all that the others have, or so many seconds since its first message."""
    begun = _begun(lines)
    return bool(begun) and (begun[-1].others >= messages or begun[-1].at - begun[0].at >= seconds)


def reading(lines: Sequence[Line], messages: int, seconds: float) -> Reading:
    """The rates of a run, from the first line with a message to the last that counts.

    Those count that are within the seconds and, if there are any others, tell of less than all messages: once all are
    read, time goes on, and messages do not. Raises ValueError where nothing was read.
    """
    begun = _begun(lines)
    if not begun:
        raise ValueError("nothing was read")
    first = begun[0]
    within = [line for line in begun if 0 < line.at - first.at <= seconds]
    last = ([line for line in within if line.others < messages] or within)[-1:]
    if not last:
        raise ValueError("nothing was told after the first message")
    elapsed = last[0].at - first.at
    return Reading((last[0].others - first.others) / elapsed, (last[0].slow - first.slow) / elapsed)


def figures(alone: Reading, beside: Reading) -> Figures:
    return {
        "alone": alone.others,
        BESIDE: beside.others,
        LOST: 1 - beside.others / alone.others,
        "slow": beside.slow,
    }


def table(results: Sequence[Result], load: float) -> Table:
    return Table(
        title="the other three partitions",
        columns=COLUMNS,
        rows=[Row.of(result, COLUMNS) for result in results],
        ratios=ratios(results, BESIDE),
        ratio_means="ours reads more of the others",
        checks=checks(results, GOALS),
        load=load,
    )


def _begun(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if line.event == "progress" and line.others + line.slow > 0]
