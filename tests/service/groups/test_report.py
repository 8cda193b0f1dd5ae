from __future__ import annotations

import pytest

from tests.service.groups.kit import commits, group, member, report_of, tp


def test_report_has_assigned_committed_and_subscribed_partitions() -> None:
    report = report_of(
        group(member("a", {"orders": (1,)}), member("b", {}, "orders", "payments")),
        committed={"old-3": 5, "orders-1": 2},
        counts={"orders": 2, "payments": 1},
    )
    assert [str(row.partition) for row in report.partitions] == ["old-3", "orders-0", "orders-1", "payments-0"]
    assert [row.member.client_id if row.member else None for row in report.partitions] == [None, None, "a", None]


@pytest.mark.parametrize(
    ("committed", "end", "lag"),
    [(3, 10, 7), (10, 10, 0), (0, 0, 0), (None, 10, None), (3, None, None), (12, 10, -2)],
    ids=["behind", "at the end", "empty log", "nothing committed", "end not known", "after a truncated log"],
)
def test_lag_is_log_end_minus_commit(committed: int | None, end: int | None, lag: int | None) -> None:
    report = report_of(
        group(member("a", {"orders": (0,)})),
        committed={} if committed is None else {"orders-0": committed},
        ends={} if end is None else {"orders-0": end},
    )
    assert [row.lag for row in report.partitions] == [lag]
    assert report.lag == lag


def test_lag_of_the_group_is_the_sum_of_known_lags() -> None:
    report = report_of(
        group(member("a", {"orders": (0, 1, 2)})),
        committed={"orders-0": 1, "orders-1": 2},
        ends={"orders-0": 10, "orders-1": 10, "orders-2": 10},
    )
    assert report.lag == 17


@pytest.mark.parametrize(
    ("committed", "outside"), [(4, True), (5, False), (9, False), (10, False), (11, True), (None, False)]
)
def test_commit_outside_the_log_is_detected(committed: int | None, outside: bool) -> None:
    (row,) = report_of(
        group(member("a", {"orders": (0,)})),
        committed={} if committed is None else {"orders-0": committed},
        starts={"orders-0": 5},
        ends={"orders-0": 10},
    ).partitions
    assert row.is_outside_log is outside


def test_partition_of_two_members_has_a_row_for_each() -> None:
    report = report_of(group(member("a", {"orders": (0,)}), member("b", {"orders": (0,)})))
    assert [(row.partition, row.member.client_id) for row in report.partitions if row.member] == [
        (tp("orders-0"), "a"),
        (tp("orders-0"), "b"),
    ]


def test_reason_for_missing_offsets_is_in_the_row() -> None:
    (row,) = report_of(
        group(state="Empty"), committed={"gone-0": 3}, missing={"gone-0": "no such partition"}
    ).partitions
    assert (row.committed, row.log_end, row.lag, row.problem) == (
        commits({"gone-0": 3})[tp("gone-0")],
        None,
        None,
        "no such partition",
    )


def test_offsets_partition_depends_on_their_number() -> None:
    named = group()
    assert report_of(named, offsets_partitions=50).offsets_partition == 3  # "g".hashCode() is 103
    assert report_of(named, offsets_partitions=5).offsets_partition == 3
    assert report_of(named, offsets_partitions=100).offsets_partition == 3
    assert report_of(named, offsets_partitions=10_000).offsets_partition == 103
    assert report_of(named, offsets_partitions=None).offsets_partition is None
