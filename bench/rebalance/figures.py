"""Cost of a change of a group, computed from its members' reports. Pure. Times are seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import attrs

from bench.common.results import Figures, Result
from bench.common.tables import Column, Row, Table, ratios
from tests.integration.peers.lines import Line

JOINING = "first_message"
_STEADY = "steady"
COLUMNS = (
    Column(JOINING, "third's first, ms", scale=1e3),
    Column("pause_joining", "kept paused, ms", scale=1e3),
    Column("taken_over", "taken over, ms", scale=1e3),
    Column("pause_leaving", "kept paused, ms", scale=1e3),
    Column(_STEADY, "(nothing happening)", scale=1e3),
)


@attrs.frozen
class Cost:
    """Cost of one change of the group."""

    wait: float
    """Time from the change until the new owners have messages: `first_message` or `taken_over`."""
    pause: float
    """Longest time meanwhile without a message of a partition that kept its owner."""
    steady: float
    """The same just before the change: the part of the pause that is due to the rate of messages."""


def figures(joining: Cost, leaving: Cost) -> Figures:
    """Return the figures of a round, in which a third member joined and left."""
    return {
        JOINING: joining.wait,
        "pause_joining": joining.pause,
        "taken_over": leaving.wait,
        "pause_leaving": leaving.pause,
        _STEADY: max(joining.steady, leaving.steady),
    }


def table(results: Sequence[Result], load: float) -> Table:
    compared = [column.key for column in COLUMNS if column.key != _STEADY]
    return Table(
        title="a third joins, and leaves",
        columns=COLUMNS,
        rows=[Row.of(result, COLUMNS) for result in results],
        ratios=[ratio for key in compared for ratio in ratios(results, key)],
        ratio_means="ours is slower",
        load=load,
    )


def first_message(lines: Iterable[Line], begin: float) -> float:
    """Return the time from `begin` to the first message in `lines`. Raises ValueError if there is none."""
    return min(line.at for line in lines if line.event == "message" and line.at >= begin) - begin


def taken_over(lines: Sequence[Line], partitions: Iterable[int], begin: float) -> float:
    """Return the time from `begin` until each of these partitions has had a message in `lines` of the new owners."""
    return max(first_message(_messages_of(lines, partition), begin) for partition in partitions)


def longest_silence(lines: Sequence[Line], partitions: Iterable[int], begin: float, end: float) -> float:
    """Return the longest time without a message of one of these partitions.

    Only times that overlap with `begin` to `end` count.
    """
    return max(_silence([line.at for line in _messages_of(lines, partition)], begin, end) for partition in partitions)


def _messages_of(lines: Iterable[Line], partition: int) -> list[Line]:
    return [line for line in lines if line.event == "message" and line.partitions == (partition,)]


def _silence(times: Iterable[float], begin: float, end: float) -> float:
    return max(after - before for before, after in pairwise(sorted(times)) if after > begin and before < end)
