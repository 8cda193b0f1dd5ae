"""Meters that count events."""

from __future__ import annotations

import ast
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import sarameya
from sarameya.meters import REBALANCE_REASONS, SECONDS, Histogram, Meter
from sarameya.model import TopicPartition
from sarameya.observe import (
    RETRIED,
    BackpressureEnded,
    ClaimEnded,
    ConnectionLost,
    DeadLettered,
    Landed,
    LandingFailed,
    MembershipChanged,
    OffsetReset,
    Retrying,
    StoreUsed,
)
from sarameya.protocol.membership.states import TRANSITIONS, Request, State

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
NONE = dict.fromkeys(REBALANCE_REASONS, 0)


@given(st.lists(st.floats(0, 1000)))
def test_each_value_is_in_the_bucket_of_its_smallest_bound(values: list[float]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    assert histogram.cumulative() == [(bound, sum(value <= bound for value in values)) for bound in SECONDS]
    assert histogram.count == len(values)


def test_events_are_counted_by_kind_and_topic() -> None:
    meter = Meter(lambda: 0.0)
    for event in (
        Retrying("fetch from broker 1", 1, 0.0, 0.1, "x", "fetch"),
        Retrying("fetch from broker 2", 1, 0.0, 0.1, "x", "fetch"),
        Retrying("offset lookup", 1, 0.0, 0.1, "x", "offset_lookup"),
        Retrying("offset fetch of group g", 1, 0.0, 0.1, "x", "offset_fetch"),
        OffsetReset(T0, 1, 9, "oldest", "out of range", 5, 20, 4),
        BackpressureEnded(T0, 1.5),
        ConnectionLost(1, "a:1", "x"),
        ClaimEnded(T0, 20, 7, 700, 0.25, 1.5),
        ClaimEnded(T1, 20, 3, 300, 0.5, 0.5),
        Landed(partition=T0, from_offset=0, to_offset=7, rows=7, size_bytes=5000, seconds=0.3),
        Landed(partition=T0, from_offset=7, to_offset=9, seconds=0.1),
        LandingFailed(partition=T0, from_offset=9, to_offset=10, cause="x"),
        DeadLettered(partition=T1, count=2, place="p"),
        StoreUsed(table="t", requests={"put": 2, "copy": 1}, sent_bytes=900, received_bytes=0),
        StoreUsed(table="u", requests={"put": 1, "get": 3}, sent_bytes=100, received_bytes=50),
    ):
        meter(event)
    meters = meter.meters
    assert meters.retries == {**dict.fromkeys(RETRIED, 0), "fetch": 2, "offset_lookup": 1, "offset_fetch": 1}
    assert meters.events["ConnectionLost"] == 1
    topic = meters.topics["t"]
    assert (topic.offsets_gone, topic.backpressure_seconds) == (4, 2.0)
    assert (topic.records, topic.size_bytes, topic.handler_seconds) == (10, 1000, 0.75)
    assert (topic.landing_seconds.count, topic.landing_seconds.total) == (2, 0.4)
    assert (topic.landing_rows.count, topic.landing_rows.total) == (1, 7)
    assert (topic.landing_bytes.count, topic.landing_bytes.total) == (1, 5000)
    assert (topic.landing_failures, topic.dead_letters) == (1, 2)
    assert meters.store_requests == {"put": 3, "copy": 1, "get": 3}
    assert (meters.store_sent_bytes, meters.store_received_bytes) == (1000, 50)


def test_rebalance_lasts_while_the_member_is_not_stable() -> None:
    now = 0.0
    meter = Meter(lambda: now)
    moves = [
        ("UNJOINED", "PREPARING_REBALANCE", "join_wanted"),
        ("PREPARING_REBALANCE", "COMPLETING_REBALANCE", "joined"),
        ("COMPLETING_REBALANCE", "STABLE", "synced"),
        ("STABLE", "LOST", "member_forgotten"),
        ("LOST", "PREPARING_REBALANCE", "join_wanted"),
        ("PREPARING_REBALANCE", "COMPLETING_REBALANCE", "joined"),
        ("COMPLETING_REBALANCE", "STABLE", "synced"),
        ("STABLE", "REVOKING", "rebalance"),
        ("REVOKING", "LEAVING", "leave_wanted"),
        ("LEAVING", "UNJOINED", "left"),
    ]
    for before, after, trigger in moves:
        meter(MembershipChanged("g", before, after, "", trigger))
        now += 1
    assert meter.meters.rebalances == {**NONE, "first_join": 1, "member_forgotten": 1, "group_changed": 1}
    # The last rebalance had not ended when the member left.
    assert (meter.meters.rebalance_seconds.count, meter.meters.rebalance_seconds.total) == (2, 2.0 + 3.0)


def test_fenced_member_does_not_count_as_a_rebalance() -> None:
    meter = Meter(lambda: 0.0)
    for before, after, trigger in (
        ("UNJOINED", "PREPARING_REBALANCE", "join_wanted"),
        ("PREPARING_REBALANCE", "COMPLETING_REBALANCE", "joined"),
        ("COMPLETING_REBALANCE", "STABLE", "synced"),
        ("STABLE", "FENCED", "refused"),
        ("FENCED", "LEAVING", "leave_wanted"),
        ("LEAVING", "UNJOINED", "left"),
    ):
        meter(MembershipChanged("g", before, after, "", trigger))
    assert meter.meters.rebalances == {**NONE, "first_join": 1}


def test_each_input_that_ends_stable_has_a_trigger_name() -> None:
    moves = {by: after for by, after in TRANSITIONS[State.STABLE].items() if after.name not in ("LEAVING", "FENCED")}
    meter = Meter(lambda: 0.0)
    for by, after in moves.items():
        meter(MembershipChanged("g", "STABLE", after.name, "", by.name.lower()))
    assert meter.meters.rebalances == {**dict.fromkeys(REBALANCE_REASONS, 1), "first_join": 0}


def test_responses_are_counted_by_request() -> None:
    meter = Meter(lambda: 0.0)
    meter.answered("FetchRequest", 0.2)
    meter.answered("FetchRequest", 0.4)
    meter.answered("HeartbeatRequest", 0.001)
    assert {name: histogram.count for name, histogram in meter.meters.requests.items()} == {"Fetch": 2, "Heartbeat": 1}


def test_each_kind_of_retry_is_counted_and_documented() -> None:
    root = Path(sarameya.__file__).parent
    sources = [path for folder in ("group", "consumer", "net") for path in (root / folder).rglob("*.py")]
    kinds = {
        keyword.value.value
        for path in sources
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name | ast.Attribute)
        for keyword in call.keywords
        if keyword.arg == "kind" and isinstance(keyword.value, ast.Constant)
    }
    assert kinds | {request.name.lower() for request in Request} == {*RETRIED, "admin"}
    page = (root.parents[1] / "docs" / "status-page.md").read_text()
    assert [word for word in (*RETRIED, *REBALANCE_REASONS) if f"`{word}`" not in page] == []
