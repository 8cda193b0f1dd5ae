"""New offsets of a reset, computed without a commit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya.model import CommittedOffset
from sarameya.net.log_offsets import NO_SUCH_OFFSET, LogOffsets
from sarameya.service.groups.checks import GroupChangeError
from sarameya.service.groups.reset import LogBounds, OffsetMove, ResetKind, ResetTarget, plan
from tests.service.groups.kit import commits, offsets, tp

HERE = tp("orders-0")


def moved(target: ResetTarget, committed: int | None, at_time: int | None = None) -> OffsetMove:
    """Return the move of a partition whose log starts at 10 and ends at 20."""
    logs = LogBounds(
        offsets({"orders-0": 10}),
        offsets({"orders-0": 20}),
        offsets({} if at_time is None else {"orders-0": at_time}),
    )
    (move,) = plan(target, [HERE], {} if committed is None else commits({"orders-0": committed}), logs)
    assert (move.partition, move.before, move.log_start, move.log_end) == (HERE, committed, 10, 20)
    return move


@pytest.mark.parametrize(
    ("target", "committed", "after", "note"),
    [
        (ResetTarget(ResetKind.EARLIEST), 15, 10, ""),
        (ResetTarget(ResetKind.LATEST), 15, 20, ""),
        (ResetTarget(ResetKind.LATEST), None, 20, ""),
        (ResetTarget(ResetKind.OFFSET, 12), 15, 12, ""),
        (ResetTarget(ResetKind.OFFSET, 10), 15, 10, ""),
        (ResetTarget(ResetKind.OFFSET, 20), 15, 20, ""),
        (ResetTarget(ResetKind.OFFSET, 9), 15, 10, "9 is before the start of the log"),
        (ResetTarget(ResetKind.OFFSET, 21), None, 20, "21 is after the end of the log"),
        (ResetTarget(ResetKind.SHIFT, -2), 15, 13, ""),
        (ResetTarget(ResetKind.SHIFT, 2), 15, 17, ""),
        (ResetTarget(ResetKind.SHIFT, -20), 15, 10, "-5 is before the start of the log"),
        (ResetTarget(ResetKind.SHIFT, 20), 15, 20, "35 is after the end of the log"),
        (ResetTarget(ResetKind.CURRENT), 15, 15, ""),
        (ResetTarget(ResetKind.CURRENT), 3, 10, "3 is before the start of the log"),
        (ResetTarget(ResetKind.CURRENT), None, 20, "nothing was committed: the end of the log"),
    ],
)
def test_target_leads_to_an_offset_inside_the_log(
    target: ResetTarget, committed: int | None, after: int, note: str
) -> None:
    move = moved(target, committed)
    assert (move.after, move.note) == (after, note)


@pytest.mark.parametrize(
    ("at_time", "after", "note"),
    [(13, 13, ""), (NO_SUCH_OFFSET, 20, "no message at or after this time: the end of the log")],
)
def test_time_leads_to_its_first_message_or_to_the_end(at_time: int, after: int, note: str) -> None:
    move = moved(ResetTarget(ResetKind.TIME, 1000), 15, at_time)
    assert (move.after, move.note) == (after, note)


@pytest.mark.parametrize(("committed", "before"), [(15, 5), (None, None)])
def test_move_has_the_lag_before_and_after(committed: int | None, before: int | None) -> None:
    move = moved(ResetTarget(ResetKind.EARLIEST), committed)
    assert (move.lag_before, move.lag_after) == (before, 10)


def test_moves_are_in_order_of_topic_and_number() -> None:
    names = ["orders-10", "orders-9", "a-0"]
    logs = LogBounds(offsets(dict.fromkeys(names, 0)), offsets(dict.fromkeys(names, 5)))
    moves = plan(ResetTarget(ResetKind.LATEST), map(tp, names), {}, logs)
    assert [str(move.partition) for move in moves] == ["a-0", "orders-9", "orders-10"]


def test_partitions_without_a_target_stop_the_plan() -> None:
    ends = LogOffsets({tp("orders-0"): 5, tp("orders-1"): 5}, {tp("orders-2"): "the partition has no leader"})
    logs = LogBounds(offsets({"orders-0": 0, "orders-1": 0, "orders-2": 0}), ends)
    with pytest.raises(GroupChangeError) as caught:
        plan(
            ResetTarget(ResetKind.SHIFT, 1),
            map(tp, ["orders-0", "orders-1", "orders-2"]),
            commits({"orders-0": 2}),
            logs,
        )
    assert str(caught.value) == "orders-1: it has no commit to shift; orders-2: the partition has no leader"


def test_failed_time_look_up_is_not_the_log_end() -> None:
    logs = LogBounds(offsets({"orders-0": 0}), offsets({"orders-0": 5}), LogOffsets({}, {HERE: "UNKNOWN (-1)"}))
    with pytest.raises(GroupChangeError, match=r"orders-0: UNKNOWN \(-1\)"):
        plan(ResetTarget(ResetKind.TIME, 1000), [HERE], {}, logs)


def test_deleted_partition_is_left_unchanged_with_a_note() -> None:
    deleted = tp("old-0")
    logs = LogBounds(offsets({"orders-0": 0}), offsets({"orders-0": 5}))
    moves = plan(
        ResetTarget(ResetKind.EARLIEST), [deleted, HERE], commits({"old-0": 3, "orders-0": 3}), logs, {deleted}
    )
    assert [(move.before, move.after) for move in moves] == [(3, None), (3, 0)]
    assert moves[0].note == "left as it is: there is no such partition any more"
    assert (moves[0].lag_before, moves[0].lag_after) == (None, None)


@given(
    start=st.integers(0, 1000),
    length=st.integers(0, 1000),
    committed=st.integers(0, 3000),
    value=st.integers(-(2**63), 2**63 - 1),
    kind=st.sampled_from([ResetKind.EARLIEST, ResetKind.LATEST, ResetKind.OFFSET, ResetKind.SHIFT, ResetKind.CURRENT]),
)
def test_no_target_leads_out_of_the_log(start: int, length: int, committed: int, value: int, kind: ResetKind) -> None:
    logs = LogBounds(LogOffsets({HERE: start}), LogOffsets({HERE: start + length}))
    (move,) = plan(ResetTarget(kind, value), [HERE], {HERE: CommittedOffset(committed)}, logs)
    assert move.after is not None
    assert start <= move.after <= start + length


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (ResetTarget(ResetKind.EARLIEST), "the start of the log"),
        (ResetTarget(ResetKind.LATEST), "the end of the log"),
        (ResetTarget(ResetKind.OFFSET, 7), "offset 7"),
        (ResetTarget(ResetKind.SHIFT, -7), "the committed offset -7"),
        (ResetTarget(ResetKind.SHIFT, 7), "the committed offset +7"),
        (ResetTarget(ResetKind.TIME, 1_700_000_000_123), "the first message from 2023-11-14T22:13:20.123+00:00 on"),
        (ResetTarget(ResetKind.CURRENT), "the committed offset, the end of the log where there is none"),
    ],
)
def test_target_has_a_description(target: ResetTarget, words: str) -> None:
    assert str(target) == words
