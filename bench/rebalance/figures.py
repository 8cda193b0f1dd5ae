"""What a change of a group cost, computed from what its members told. Pure. Times are seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import attrs

from bench.common.results import Figures, Result
from bench.common.tables import Column, Row, Table, ratios
from tests.integration.peers.lines import Line

JOINING = "first_message"
_IDLE = "steady"
COLUMNS = (
    Column(JOINING, "third's first, ms", scale=1e3),
    Column("pause_joining", "kept paused, ms", scale=1e3),
    Column("taken_over", "taken over, ms", scale=1e3),
    Column("pause_leaving", "kept paused, ms", scale=1e3),
    Column(_IDLE, "(nothing happening)", scale=1e3),
)


@attrs.frozen
class Cost:
    """What one change of the group cost."""

    wait: float
    """From the change until it is done for whom it is made: `first_message` or `taken_over`."""
    pause: float
    """The longest silence, meanwhile, of a partition that stayed where it was."""
    steady: float
    """The same just before, when nothing happened: what of the pause is the trickle's own."""


def figures(joining: Cost, leaving: Cost) -> Figures:
    """Those of a round: a third has joined, and left."""
    return {
        JOINING: joining.wait,
        "pause_joining": joining.pause,
        "taken_over": leaving.wait,
        "pause_leaving": leaving.pause,
        _IDLE: max(joining.steady, leaving.steady),
    }


def table(results: Sequence[Result], load: float) -> Table:
    compared = [column.key for column in COLUMNS if column.key != _IDLE]
    return Table(
        title="a third joins, and leaves",
        columns=COLUMNS,
        rows=[Row.of(result, COLUMNS) for result in results],
        ratios=[ratio for key in compared for ratio in ratios(results, key)],
        ratio_means="ours is slower",
        load=load,
    )


def first_message(lines: Iterable[Line], begin: float) -> float:
    """How long after `begin` the first message came among `lines`. Raises ValueError without one."""
    return min(line.at for line in lines if line.event == "message" and line.at >= begin) - begin


def taken_over(lines: Sequence[Line], partitions: Iterable[int], begin: float) -> float:
    """How long after `begin` each of `partitions` has had a message among `lines`, those of the heirs."""
    return max(first_message(_of(lines, partition), begin) for partition in partitions)


def longest_silence(lines: Sequence[Line], partitions: Iterable[int], begin: float, end: float) -> float:
    """The longest time without a message of one of `partitions`, of what began before `end` and ended after `begin`."""
    return max(_silence([line.at for line in _of(lines, partition)], begin, end) for partition in partitions)


def _of(lines: Iterable[Line], partition: int) -> list[Line]:
    return [line for line in lines if line.event == "message" and line.partitions == (partition,)]


def _silence(times: Iterable[float], begin: float, end: float) -> float:
    return max(after - before for before, after in pairwise(sorted(times)) if after > begin and before < end)
