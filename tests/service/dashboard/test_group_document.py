"""Documents of a group, merged from Kafka's view and the documents of its members' services."""

from __future__ import annotations

from typing import Any

import pytest

from sarameya import TopicPartition as TP
from sarameya.protocol.cluster.described_groups import DescribedGroup, DescribedMember
from sarameya.protocol.cluster.metadata import Broker
from sarameya.service.dashboard.endpoint_document import Document
from sarameya.service.dashboard.group_document import KafkaView, merge_documents

BROKER = Broker(0, "b", 9092)


def member(name: str, host: str, *partitions: int) -> DescribedMember:
    return DescribedMember(name, "app", f"/{host}", assignment={"orders": partitions} if partitions else {})


def group(*members: DescribedMember, state: str = "Stable") -> DescribedGroup:
    return DescribedGroup("g", state, BROKER, assignor="range", members=members)


def service(member_id: str, *rows: Document, **more: Any) -> Document:
    status = {"members": [{"worker": 1, "member_id": member_id, "state": "stable"}], "partitions": list(rows)}
    empty: Document = {"reasons": [], "explained": [], "events": [], "landings": [], "point": {}}
    return {**empty, **status, **more}


def row(partition: int, **more: Any) -> Document:
    return {
        "topic": "orders",
        "partition": partition,
        "worker": 1,
        "lag": 5,
        "committed": 1,
        "high_water_mark": -1,
        "position": -1,
        **more,
    }


def test_member_with_an_endpoint_describes_itself() -> None:
    known = KafkaView(
        group(member("m1", "10.0.0.1", 0), member("m2", "10.0.0.2", 1)),
        {TP("orders", 0): 10, TP("orders", 1): 20, TP("orders", 2): 30},
        {TP("orders", 0): 15, TP("orders", 1): 25, TP("orders", 2): 30},
    )
    found = merge_documents(known, {"10.0.0.1:8080": service("m1", row(0, lag=2), point={"records": 7.0})}, 1000.0)
    assert [(m["host"], m["member_id"], m["state"]) for m in found["members"]] == [
        ("10.0.0.1:8080", "m1", "stable"),
        ("10.0.0.2", "m2", "stable, by Kafka"),
    ]
    rows = {r["partition"]: r for r in found["partitions"]}
    assert (rows[0]["host"], rows[0]["lag"], rows[0]["committed"]) == ("10.0.0.1:8080", 2, 10)
    assert (rows[1]["host"], rows[1]["lag"], rows[1]["activity"]) == ("10.0.0.2", 5, "assigned")
    assert (rows[2]["worker"], rows[2]["lag"], rows[2]["activity"]) == ("nobody", 0, "not assigned")
    assert found["point"] == {"at": 1000.0, "lag": 7, "records": 7.0, "landed": 0, "committed_lag": 10}
    assert (found["ready"], found["reasons"]) == (True, [])


def test_rates_of_members_without_documents_are_unknown() -> None:
    known = KafkaView(group(member("m1", "h", 0)), {TP("orders", 0): 10}, {TP("orders", 0): 15})
    lags = {"lag": 5, "committed_lag": 5}
    assert merge_documents(known, {"h:1": "no status"}, 7.0)["point"] == {
        "at": 7.0,
        **lags,
        "records": -1,
        "landed": -1,
    }
    merged = merge_documents(known, {"h:1": "no status", "h:2": service("m1", row(0, lag=5))}, 7.0)
    assert merged["point"] == {"at": 7.0, **lags, "records": 0, "landed": 0}


def test_unknown_lag_of_a_member_is_computed_from_kafka() -> None:
    known = KafkaView(group(member("m1", "h", 0)), {TP("orders", 0): 10}, {TP("orders", 0): 15})
    found = merge_documents(known, {"h:1": service("m1", row(0, lag=-1))}, 0.0)
    assert found["partitions"][0]["lag"] == 5


def test_reasons_not_to_be_ready_name_their_source() -> None:
    known = KafkaView(group(member("m1", "h", 0), state="PreparingRebalance"), {}, {})
    services: dict[str, Document | str] = {
        "a:1": "its endpoint does not answer: refused",
        "b:1": service("m1", reasons=["orders-0: no progress"], explained=["orders-1: paused"]),
    }
    found = merge_documents(known, services, 0.0)
    assert found["reasons"] == [
        "a:1: its endpoint does not answer: refused",
        "b:1: orders-0: no progress",
        "the group is PreparingRebalance",
    ]
    assert (found["ready"], found["explained"]) == (False, ["b:1: orders-1: paused"])


def test_group_without_members_is_not_ready() -> None:
    assert merge_documents(KafkaView(group(state="Empty"), {}, {}), {}, 0.0)["reasons"] == [
        "the group has no members: it is Empty"
    ]


def test_events_of_all_members_are_sorted_latest_first() -> None:
    def event(at: float, number: int) -> Document:
        return {"at": at, "number": number, "worker": 1, "text": ""}

    found = merge_documents(
        KafkaView(group(), {}, {}),
        {"a:1": service("m", events=[event(3.0, 2), event(1.0, 1)]), "b:1": service("n", events=[event(2.0, 9)])},
        0.0,
    )
    assert [(e["host"], e["at"]) for e in found["events"]] == [("a:1", 3.0), ("b:1", 2.0), ("a:1", 1.0)]


def test_member_at_two_urls_is_shown_once() -> None:
    known = KafkaView(group(member("m1", "h", 0)), {TP("orders", 0): 10}, {TP("orders", 0): 15})
    event: Document = {"at": 1.0, "number": 1, "worker": 1, "text": ""}
    status = service("m1", row(0), point={"records": 7.0}, events=[event], reasons=["orders-0: no progress"])
    found = merge_documents(known, {"h:1": status, "h.internal:1/a": status}, 0.0)
    assert [(m["host"], m["member_id"]) for m in found["members"]] == [("h:1", "m1")]
    assert [(r["host"], r["partition"]) for r in found["partitions"]] == [("h:1", 0)]
    assert (found["point"]["records"], found["point"]["lag"]) == (7.0, 5)
    assert [e["host"] for e in found["events"]] == ["h:1"]
    assert found["reasons"] == ["h:1: orders-0: no progress"]
    assert found["explained"] == ["h.internal:1/a: the same as h:1"]


def test_two_members_at_one_url_are_distinguished() -> None:
    known = KafkaView(group(member("m1", "h", 0), member("m2", "h", 1)), {}, {})
    both = service("m1", row(0), {**row(1), "worker": 2}, point={"records": 1.0})
    both["members"].append({"worker": 2, "member_id": "m2", "state": "stable"})
    found = merge_documents(known, {"h:1": both}, 0.0)
    assert [m["member_id"] for m in found["members"]] == ["m1", "m2"]
    assert [(r["partition"], r["worker"]) for r in found["partitions"]] == [(0, 1), (1, 2)]
    found = merge_documents(known, {"h:2": service("m2", row(1)), "h:1": both}, 0.0)
    assert [(m["host"], m["worker"], m["member_id"]) for m in found["members"]] == [("h:2", 1, "m2"), ("h:1", 1, "m1")]
    assert sorted((r["partition"], r["host"]) for r in found["partitions"]) == [(0, "h:1"), (1, "h:2")]


def test_members_before_their_join_are_distinguished() -> None:
    found = merge_documents(KafkaView(group(), {}, {}), {"a:1": service(""), "b:1": service("")}, 0.0)
    assert [m["host"] for m in found["members"]] == ["a:1", "b:1"]


def test_partition_claimed_twice_belongs_to_kafkas_owner() -> None:
    known = KafkaView(group(member("m2", "h", 0)), {}, {TP("orders", 0): 15})
    both: dict[str, Document | str] = {"a:1": service("m1", row(0, lag=9)), "b:1": service("m2", row(0, lag=2))}
    for names in (["a:1", "b:1"], ["b:1", "a:1"]):
        found = merge_documents(known, {name: both[name] for name in names}, 0.0)
        assert [(r["host"], r["lag"]) for r in found["partitions"]] == [("b:1", 2)]
        assert found["point"]["lag"] == 2
        assert found["reasons"] == [f"orders-0: read by {names[0]} 1 and by {names[1]} 1"]
        assert (found["ready"], found["explained"]) == (False, [])
    known = KafkaView(group(member("m2", "h", 0), state="PreparingRebalance"), {}, {})
    found = merge_documents(known, both, 0.0)
    assert found["reasons"] == ["the group is PreparingRebalance"], "the partition may be moving"
    assert found["explained"] == ["orders-0: read by a:1 1 and by b:1 1"]


@pytest.mark.parametrize(
    ("own", "end", "lag"),
    [
        ({"lag": 0, "high_water_mark": 4, "position": 4}, 9, 5),
        ({"lag": 0, "high_water_mark": 4, "position": 4}, -1, 0),
        ({"lag": 3, "high_water_mark": 9, "position": 6}, 7, 3),
        ({"lag": 0, "high_water_mark": 9, "position": 6}, 9, 0),  # under read_committed, before an open transaction
        ({"lag": 2, "high_water_mark": 9, "position": 6}, 12, 5),
        ({"lag": -1, "high_water_mark": -1, "position": 6}, 9, 3),
        ({"lag": -1, "high_water_mark": -1, "position": -1}, 9, 8),  # from its commit
    ],
)
def test_lag_is_that_of_the_member_plus_growth_of_the_log(own: Document, end: int, lag: int) -> None:
    ends = {TP("orders", 0): end} if end >= 0 else {}
    found = merge_documents(
        KafkaView(group(member("m1", "h", 0)), {TP("orders", 0): 1}, ends), {"h:1": service("m1", row(0, **own))}, 0.0
    )
    (shown,) = found["partitions"]
    assert shown["lag"] == lag
    assert shown["high_water_mark"] == max(end, own["high_water_mark"])


def test_old_kafka_facts_are_shown_with_their_age() -> None:
    known = KafkaView(group(state="Dead"), {}, {})
    found = merge_documents(known, {"h:1": service("m1", row(0))}, 0.0, kafka_trouble="Kafka has not answered yet")
    assert (found["ready"], found["reasons"]) == (False, ["Kafka has not answered yet"])
    assert [r["host"] for r in found["partitions"]] == ["h:1"]


@pytest.mark.parametrize(
    ("own", "lags"),
    [
        ({}, (8, -1)),  # an old version without these fields: computed from Kafka's offsets
        ({"committed_lag": 3, "landed_lag": 2, "high_water_mark": 7, "committed": 1}, (5, 4)),
        ({"committed_lag": 6, "landed_lag": -1, "high_water_mark": 9, "committed": 0}, (5, -1)),
        ({"committed_lag": 0, "high_water_mark": 9, "committed": 1}, (0, -1)),  # before an open transaction
    ],
)
def test_committed_and_landed_lag_follow_log_and_commit(own: Document, lags: tuple[int, int]) -> None:
    known = KafkaView(group(member("m1", "h", 0)), {TP("orders", 0): 1}, {TP("orders", 0): 9})
    (shown,) = merge_documents(known, {"h:1": service("m1", row(0, **own))}, 0.0)["partitions"]
    assert (shown["committed_lag"], shown["landed_lag"]) == lags
