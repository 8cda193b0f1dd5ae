"""Advice in a group's report, first the rule for numbers of partitions and members."""

from __future__ import annotations

import pytest

from sarameya.service.groups.advice import advice, partitions_and_members
from tests.service.groups.kit import group, member, report_of


@pytest.mark.parametrize(
    ("partitions", "members", "line"),
    [
        (3, 3, "3 partitions, 3 members: one each"),
        (1, 1, "1 partition, 1 member: one each"),
        (12, 4, "12 partitions, 4 members: 3 each"),
        (10, 3, "10 partitions, 3 members: some read 4, others 3; 2 or 5 members would read the same number each"),
        (7, 3, "7 partitions, 3 members: some read 3, others 2; 1 or 7 members would read the same number each"),
        (3, 2, "3 partitions, 2 members: some read 2, others 1; 1 or 3 members would read the same number each"),
        (3, 4, "3 partitions, 4 members: 1 idle; only more partitions would give it work"),
        (4, 9, "4 partitions, 9 members: 5 idle; only more partitions would give them work"),
        (0, 2, "0 partitions, 2 members: 2 idle; only more partitions would give them work"),
    ],
)
def test_partitions_should_be_a_multiple_of_members(partitions: int, members: int, line: str) -> None:
    assert partitions_and_members(partitions, members) == line


def test_even_group_at_the_end_of_its_logs_has_one_line() -> None:
    report = report_of(
        group(member("a", {"orders": (0,)}), member("b", {"orders": (1,)})),
        committed={"orders-0": 5, "orders-1": 5},
        ends={"orders-0": 5, "orders-1": 5},
        counts={"orders": 2},
    )
    assert advice(report) == ["2 partitions, 2 members: one each"]


def test_uneven_assignment_by_range_is_explained() -> None:
    both = {"t1": (0, 1, 2, 3), "t2": (0, 1, 2, 3)}
    rest = {"t1": (4, 5, 6), "t2": (4, 5, 6)}
    members = [member("a", both, "t1", "t2"), member("b", rest, "t1", "t2")]
    assert advice(report_of(group(*members))) == [
        "14 partitions, 2 members: assigned unevenly, 6 to 8 each; range assigns each topic by itself, "
        "other assignors assign all of them together"
    ]


def test_uneven_assignment_by_another_assignor_has_no_cause() -> None:
    members = [member("a", {"orders": (0, 1, 2)}), member("b", {"orders": (3,)})]
    assert advice(report_of(group(*members, assignor="mine"))) == [
        "4 partitions, 2 members: assigned unevenly, 1 to 3 each"
    ]


def test_members_idle_by_an_uneven_assignment_are_counted() -> None:
    members = [member("a", {"t1": (0,), "t2": (0,)}), member("b", {}), member("c", {})]
    (line,) = advice(report_of(group(*members)))
    assert line.startswith("2 partitions, 3 members: assigned unevenly, 0 to 2 each, 2 idle; ")


def test_unassigned_partitions_are_named() -> None:
    report = report_of(group(member("a", {"orders": (0,)})), counts={"orders": 8})
    assert advice(report)[1:] == [
        "orders-1, orders-2, orders-3, orders-4, orders-5 and 2 more: subscribed to, but assigned to nobody until the "
        "next rebalance"
    ]


def test_partition_of_two_members_is_named() -> None:
    members = [member("a", {"orders": (0, 1)}), member("b", {"orders": (1,)})]
    assert advice(report_of(group(*members)))[1:] == ["orders-1: assigned to more than one member"]


def test_commit_outside_the_log_is_reported_with_a_remedy() -> None:
    report = report_of(group(state="Empty"), committed={"orders-0": 3}, starts={"orders-0": 5}, ends={"orders-0": 9})
    assert advice(report)[1:] == [
        "orders-0: the commit 3 is outside the log [5, 9]; reset it, or set offset_out_of_range for its reader"
    ]


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (3, "no members: nothing is read"),
        (4, "no members: nothing is read, 1 message waits"),
        (9, "no members: nothing is read, 6 messages wait"),
    ],
)
def test_group_without_members_reports_waiting_messages(end: int, line: str) -> None:
    assert advice(report_of(group(state="Empty"), committed={"orders-0": 3}, ends={"orders-0": end})) == [line]


def test_rebalancing_group_has_no_other_advice() -> None:
    waiting = member("a", None, problem="not known while the group rebalances")
    report = report_of(group(waiting, state="PreparingRebalance"), counts={"orders": 4})
    assert advice(report) == ["the group is rebalancing (PreparingRebalance): look again when it is Stable"]


def test_group_with_an_undecodable_member_has_no_advice() -> None:
    report = report_of(
        group(member("a", {"orders": (0,)}), member("b", None, problem="no bytes")), counts={"orders": 4}
    )
    assert advice(report) == []


def test_group_of_another_protocol_is_reported() -> None:
    worker = member("a", None, problem="not decoded")
    (line,) = advice(report_of(group(worker, protocol_type="connect")))
    assert line.startswith("the group's protocol is 'connect': ")


def test_group_of_another_type_is_reported() -> None:
    (line,) = advice(report_of(group(kind="share", protocol_type="share")))
    assert line.startswith("a group of the type 'share': ")
