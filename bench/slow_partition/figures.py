"""Figures of the partitions beside a slow one: their rate, and its loss. Pure. Rates are messages per second."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from bench.common.results import Figures, Result
from bench.common.tables import Column, Goal, Goals, Row, Table, checks, ratios
from bench.members.protocol import Line

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
    """Rates of one run: of the slow partition, and of the others together."""

    others: float
    slow: float


def has_read(lines: Sequence[Line], messages: int, seconds: float) -> bool:
    """Return whether a run is complete: the others are read, or the time since the first message is over.

    Args:
        lines: Reports of the member.
        messages: Number of messages of the other partitions together.
        seconds: Length of a run.
    """
    progress = _progress(lines)
    return bool(progress) and (progress[-1].others >= messages or progress[-1].at - progress[0].at >= seconds)


def reading(lines: Sequence[Line], messages: int, seconds: float) -> Reading:
    """Return the rates of a run, from the first report with a message to the last report that counts.

    Reports within `seconds` count. Those with all messages count only if there are no others: once all messages are
    read, the time continues, but the number does not.

    Args:
        lines: Reports of the member.
        messages: Number of messages of the other partitions together.
        seconds: Length of a run.

    Raises:
        ValueError: Nothing was read, or nothing was reported after the first message.
    """
    progress = _progress(lines)
    if not progress:
        raise ValueError("nothing was read")
    first = progress[0]
    within = [line for line in progress if 0 < line.at - first.at <= seconds]
    last = ([line for line in within if line.others < messages] or within)[-1:]
    if not last:
        raise ValueError("nothing was reported after the first message")
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


def _progress(lines: Sequence[Line]) -> list[Line]:
    """Return the reports from the first message on."""
    return [line for line in lines if line.event == "progress" and line.others + line.slow > 0]
