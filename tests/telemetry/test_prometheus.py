"""The metrics of a member, read by Prometheus' own parsers and compared with the state of the embedded broker."""

from __future__ import annotations

from collections.abc import Iterable

import trio
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client import Histogram as LibraryHistogram
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from trio.testing import MockClock

from sarameya import (
    Claim,
    ConsumerGroup,
    DeadLettered,
    Landed,
    LandingFailed,
    Message,
    Session,
    StoreUsed,
    TopicPartition,
)
from sarameya.meters import ROWS
from sarameya.observe import OffsetReset
from sarameya.protocol.membership.states import State
from sarameya.telemetry.prometheus import GroupCollector
from tests.group.kit import Recorder, deadline, orders, start_member

Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


def registry_of(*groups: ConsumerGroup) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(GroupCollector.of(*groups))
    return registry


class Moment(Collector):
    """A collector of families that were collected once, because ages differ in each collection."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def moment_of(registry: CollectorRegistry) -> CollectorRegistry:
    moment = CollectorRegistry()
    moment.register(Moment(list(registry.collect())))
    return moment


def samples(registry: CollectorRegistry) -> list[Sample]:
    """Return the samples at one moment, checked to be equal in both text formats."""
    registry = moment_of(registry)
    plain = [one for family in parse(generate_latest(registry).decode()) for one in family.samples]
    strict = [one for family in parse_openmetrics(generate_openmetrics(registry).decode()) for one in family.samples]
    assert {(s.name, *sorted(s.labels.items()), s.value) for s in plain} == {
        (s.name, *sorted(s.labels.items()), s.value) for s in strict
    }
    return strict


def value(found: list[Sample], name: str, **labels: str) -> float:
    (one,) = [s for s in found if s.name == name and labels.items() <= s.labels.items()]
    return float(one.value)


async def test_metrics_of_a_member_match_the_broker(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        cluster.produce_many("orders", 0, [(None, b"x" * 100)] * 10)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, autocommit_interval=1.0)
        await handler.received(10)
        await trio.sleep(10)
        group = member.group
        registry = registry_of(group)
        found = samples(registry)
        own = {"group": "g", "worker": "1"}
        zero = {**own, "topic": "orders", "partition": "0"}
        assert value(found, "sarameya_partition_lag_records", **zero) == 0
        assert value(found, "sarameya_partition_position_offset", **zero) == 10
        assert value(found, "sarameya_partition_high_water_mark_offset", **zero) == 10
        assert value(found, "sarameya_partition_committed_offset", **zero) == 10
        assert not [s for s in found if s.name == "sarameya_partition_landed_offset"], "no handler lands"
        assert value(found, "sarameya_records_total", **own, topic="orders") == 10
        assert value(found, "sarameya_fetched_bytes_total", **own, topic="orders") > 1000
        assert value(found, "sarameya_assigned_partitions", **own) == 2
        described = cluster.describe_group("g")
        assert value(found, "sarameya_member_generation", **own) == described.generation
        assert 0 <= value(found, "sarameya_coordinator_silent_seconds", **own) <= group.config.heartbeat_interval
        states = {s.labels["state"]: s.value for s in found if s.name == "sarameya_member_state"}
        assert states == {**{state.name.lower(): 0 for state in State}, "closed": 0, "stable": 1}
        assert value(found, "sarameya_rebalances_total", **own, reason="first_join") == 1
        assert value(found, "sarameya_rebalances_total", **own, reason="member_forgotten") == 0
        assert value(found, "sarameya_retries_total", **own, what="offset_lookup") == 0
        assert value(found, "sarameya_rebalance_duration_seconds_count", **own) == 1
        assert value(found, "sarameya_request_duration_seconds_count", **own, request="OffsetCommit") >= 1
        assert value(found, "sarameya_buffer_limit_bytes", **own) == group.config.fetch_buffer_bytes
        await member.close()
        found = samples(registry)
        assert not [s for s in found if s.name.startswith("sarameya_partition_")], (
            "the member has no partitions any more"
        )
        assert value(found, "sarameya_records_total", **own, topic="orders") == 10


async def test_landing_metrics_are_histograms(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        orders_0 = TopicPartition("orders", 0)
        notify = member.group._observer
        for rows, size, seconds in ((5, 6000, 0.3), (50_000, 2**22, 7.0)):
            notify(Landed(partition=orders_0, from_offset=0, to_offset=1, rows=rows, size_bytes=size, seconds=seconds))
        notify(StoreUsed(table="t", requests={"put": 2}, sent_bytes=900, received_bytes=7))
        found = samples(registry_of(member.group))
        assert value(found, "sarameya_store_requests_total", operation="put") == 2
        assert value(found, "sarameya_store_sent_bytes_total") == 900
        assert value(found, "sarameya_store_received_bytes_total") == 7
        assert value(found, "sarameya_landing_duration_seconds_count", topic="orders") == 2
        assert value(found, "sarameya_landing_duration_seconds_sum", topic="orders") == 7.3
        assert value(found, "sarameya_landing_duration_seconds_bucket", topic="orders", le="0.5") == 1
        assert value(found, "sarameya_landing_rows_bucket", topic="orders", le="10.0") == 1
        assert value(found, "sarameya_landing_size_bytes_bucket", topic="orders", le="+Inf") == 2
        await member.close()


async def test_members_of_one_service_have_different_worker_labels(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        first = await start_member(nursery, cluster, Recorder())
        second = await start_member(nursery, cluster, Recorder())
        await trio.sleep(10)
        found = samples(registry_of(first.group, second.group))
        lags = {s.labels["worker"]: s.labels["partition"] for s in found if s.name == "sarameya_partition_lag_records"}
        assert lags.keys() == {"1", "2"}
        assert set(lags.values()) == {"0", "1"}
        await first.close()
        await second.close()


async def test_counters_of_losses_start_at_zero(autojump_clock: MockClock) -> None:
    """Prometheus sees no increase if a counter's first sample already includes it."""
    async with orders(1) as cluster, deadline() as nursery:
        member = await start_member(nursery, cluster, Recorder())
        await trio.sleep(5)
        counters = ("offsets_gone", "dead_letters", "landing_failures")
        labels = {"group": "g", "worker": "1", "topic": "orders"}
        found = samples(registry_of(member.group))
        assert [value(found, f"sarameya_{name}_total", **labels) for name in counters] == [0, 0, 0]
        assert value(found, "sarameya_events_total", event="OffsetReset") == 0
        assert value(found, "sarameya_events_total", event="SessionStarted") == 1
        events = {s.labels["event"] for s in found if s.name == "sarameya_events_total"}
        assert {"Landed", "TaskStuck", "ConnectionLost"} <= events
        assert "Event" not in events
        orders_0 = TopicPartition("orders", 0)
        member.group._observer(OffsetReset(orders_0, 1, 9, "oldest", "out of range", 5, 20, 4))
        member.group._observer(DeadLettered(partition=orders_0, count=2, place="p"))
        member.group._observer(LandingFailed(partition=orders_0, from_offset=0, to_offset=1, cause="disk full"))
        found = samples(registry_of(member.group))
        assert [value(found, f"sarameya_{name}_total", **labels) for name in counters] == [4, 2, 1]
        await member.close()


async def test_units_and_bounds_are_formatted_like_the_library(autojump_clock: MockClock) -> None:
    async with orders(1) as cluster, deadline() as nursery:
        member = await start_member(nursery, cluster, Recorder())
        await trio.sleep(5)
        families = [*parse_openmetrics(generate_openmetrics(registry_of(member.group)).decode())]
        units = {family.name: family.unit for family in families}
        for name, unit in units.items():
            last = name.rpartition("_")[2]
            assert unit == (last if last in ("seconds", "bytes") else ""), name
        assert (units["sarameya_fetched_bytes"], units["sarameya_request_duration_seconds"]) == ("bytes", "seconds")
        own_bounds = {
            s.labels["le"] for family in families for s in family.samples if s.name == "sarameya_landing_rows_bucket"
        }
        own = CollectorRegistry()
        library_histogram = LibraryHistogram("rows", "Theirs.", buckets=ROWS, registry=own)
        library_histogram.observe(1)
        assert own_bounds == {
            s.labels["le"] for family in own.collect() for s in family.samples if s.name == "rows_bucket"
        }
        await member.close()


async def test_overdue_handler_is_a_gauge_of_seconds(autojump_clock: MockClock) -> None:
    async def hang(session: Session, claim: Claim, message: Message) -> None:
        await trio.sleep(100)

    async with orders(1) as cluster, deadline() as nursery:
        member = await start_member(nursery, cluster, Recorder(hang), wall_clock=lambda: 2e9)
        await trio.sleep(5)
        name, labels = "sarameya_partition_overdue_seconds", {"topic": "orders", "partition": "0"}
        assert value(samples(registry_of(member.group)), name, **labels) == 0
        cluster.produce("orders", 0, b"x")
        await trio.sleep(60)
        assert 55 <= value(samples(registry_of(member.group)), name, **labels) <= 60
        await member.close()
