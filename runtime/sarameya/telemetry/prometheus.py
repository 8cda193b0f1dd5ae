"""Metrics of members for Prometheus, with its official library: a collector that reads status and meters on demand.

The collector keeps no counts of its own, so a revoked partition has no row any more. Names and units follow Prometheus'
conventions (base units, `_total` for counters). Every metric has the labels `group` and `worker`. Known counters have a
row with 0 from the start: Prometheus detects no increase in a counter whose first value is 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from sarameya import observe
from sarameya._version import __version__
from sarameya.meters import Histogram, TopicMeters
from sarameya.protocol.membership.states import State
from sarameya.status import PartitionStatus
from sarameya.telemetry.snapshot import MemberSnapshot, Metered
from sarameya.telemetry.totals import totals

__all__ = ["GroupCollector"]

_MEMBER = ["group", "worker"]
_TOPIC = [*_MEMBER, "topic"]
_PARTITION = [*_TOPIC, "partition"]
_UNITS = ("seconds", "bytes")
"""Units that OpenMetrics knows."""

_OFFSETS: dict[str, tuple[str, Callable[[PartitionStatus], int]]] = {
    "lag_records": (
        "Offsets that the handler's position is behind the end of the log; Kafka's lag is committed_lag_records.",
        lambda one: one.lag,
    ),
    "committed_lag_records": (
        "Offsets that the group's commit is behind the end of the log: Kafka's lag.",
        lambda one: one.committed_lag,
    ),
    "landed_lag_records": (
        "Offsets from the end of the landed records to the end of the log.",
        lambda one: one.landed_lag,
    ),
    "position_offset": ("The offset of the next message for the handler.", lambda one: one.position),
    "committed_offset": ("The offset that the group has committed.", lambda one: one.committed),
    "high_water_mark_offset": ("The end of the log.", lambda one: one.high_water_mark),
    "landed_offset": ("The offset after the last landed record.", lambda one: one.landed),
}
_EVENTS = sorted(
    name
    for name, found in vars(observe).items()
    if isinstance(found, type) and issubclass(found, observe.Event) and found is not observe.Event
)
_STATES = [*(state.name.lower() for state in State), "closed"]


class GroupCollector(Collector):
    """Collector of a group's metrics. Register it: `REGISTRY.register(GroupCollector.of(group))`.

    It must be called on the group's event loop, so `prometheus_client.start_http_server`, which uses a thread, must not
    call it.
    """

    def __init__(self, members: Callable[[], Iterable[MemberSnapshot]]) -> None:
        self._members = members

    @classmethod
    def of(cls, *groups: Metered) -> GroupCollector:
        """Return a collector of ConsumerGroups of this process; their `worker` is 1, 2 and so on."""
        return cls(lambda: [MemberSnapshot.of(group, number) for number, group in enumerate(groups, start=1)])

    def describe(self) -> Iterable[Metric]:
        """Return no metric, so that the collector can be registered before there is a member."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric of all members."""
        return families(self.members())

    def members(self) -> tuple[MemberSnapshot, ...]:
        """Return the present members."""
        return tuple(self._members())


def families(members: Sequence[MemberSnapshot]) -> Iterator[Metric]:
    """Yield every metric of these members."""
    build = GaugeMetricFamily("sarameya_build_info", "1, with the version that runs.", labels=["version"])
    build.add_metric([__version__], 1)
    yield build
    for families_of in (_membership, _partitions, _topics, _meters, _landings):
        for family in families_of(members):
            last = family.name.rpartition("_")[2]
            family.unit = last if last in _UNITS else ""
            yield family


def _labels(member: MemberSnapshot, *more: object) -> list[str]:
    return [member.status.group, str(member.worker), *map(str, more)]


def _membership(members: Iterable[MemberSnapshot]) -> Iterator[Metric]:
    state = GaugeMetricFamily("sarameya_member_state", "1 for the present state.", labels=[*_MEMBER, "state"])
    lasts = GaugeMetricFamily("sarameya_member_state_seconds", "Seconds in the present state.", labels=_MEMBER)
    silent = GaugeMetricFamily(
        "sarameya_coordinator_silent_seconds",
        "Seconds since the last response of the group's coordinator. No row before the first.",
        labels=_MEMBER,
    )
    generation = GaugeMetricFamily("sarameya_member_generation", "The group's generation, or -1.", labels=_MEMBER)
    assigned = GaugeMetricFamily("sarameya_assigned_partitions", "Number of assigned partitions.", labels=_MEMBER)
    buffered = GaugeMetricFamily("sarameya_buffer_bytes", "Bytes fetched and not yet processed.", labels=_MEMBER)
    budget = GaugeMetricFamily(
        "sarameya_buffer_limit_bytes", "Limit of buffer_bytes: fetch_buffer_bytes.", labels=_MEMBER
    )
    for member in members:
        status, labels = member.status, _labels(member)
        for name in _STATES:
            state.add_metric([*labels, name], int(status.state.lower() == name))
        lasts.add_metric(labels, status.seconds)
        if status.coordinator_seconds >= 0:
            silent.add_metric(labels, status.coordinator_seconds)
        generation.add_metric(labels, status.generation)
        assigned.add_metric(labels, len(status.partitions))
        buffered.add_metric(labels, status.buffered_bytes)
        budget.add_metric(labels, status.budget_bytes)
    yield from (state, lasts, silent, generation, assigned, buffered, budget)


def _partitions(members: Iterable[MemberSnapshot]) -> Iterator[Metric]:
    offsets = {
        name: GaugeMetricFamily(f"sarameya_partition_{name}", f"{help} No row if it is unknown.", labels=_PARTITION)
        for name, (help, _) in _OFFSETS.items()
    }
    backpressured = GaugeMetricFamily(
        "sarameya_partition_backpressured_seconds",
        "Seconds for which the partition is not fetched, since its handler takes nothing; 0 if it is fetched.",
        labels=_PARTITION,
    )
    unlanded = GaugeMetricFamily(
        "sarameya_partition_oldest_unlanded_seconds",
        "Age of the oldest record that was read and has not landed or, if nothing lands, is not committed; "
        "0 if there is none. No row if it is unknown.",
        labels=_PARTITION,
    )
    overdue = GaugeMetricFamily(
        "sarameya_partition_overdue_seconds",
        "Seconds for which an overdue handler has held the same records without progress; 0 if it is not overdue.",
        labels=_PARTITION,
    )
    in_flight = GaugeMetricFamily(
        "sarameya_partition_in_flight_records",
        "Messages that were handed out and are not finished, if several are handled at the same time.",
        labels=_PARTITION,
    )
    oldest = GaugeMetricFamily(
        "sarameya_partition_oldest_in_flight_seconds",
        "Seconds since the first of these was handed out; 0 if there is none.",
        labels=_PARTITION,
    )
    activity = GaugeMetricFamily(
        "sarameya_partition_activity_seconds", "Seconds in the present activity.", labels=[*_PARTITION, "activity"]
    )
    for member in members:
        for one in member.status.partitions:
            labels = _labels(member, one.partition.topic, one.partition.partition)
            for name, (_, offset) in _OFFSETS.items():
                if (value := offset(one)) >= 0:
                    offsets[name].add_metric(labels, value)
            backpressured.add_metric(labels, one.backpressured_seconds)
            if one.unlanded_seconds >= 0:
                unlanded.add_metric(labels, one.unlanded_seconds)
            overdue.add_metric(labels, 0.0 if one.overdue is None else one.overdue.seconds)
            in_flight.add_metric(labels, one.in_flight)
            oldest.add_metric(labels, one.oldest_seconds)
            activity.add_metric([*labels, str(one.activity)], one.seconds)
    yield from (*offsets.values(), unlanded, backpressured, overdue, in_flight, oldest, activity)


def _topics(members: Iterable[MemberSnapshot]) -> Iterator[Metric]:
    records = CounterMetricFamily("sarameya_records", "Messages decoded for the handler.", labels=_TOPIC)
    size = CounterMetricFamily("sarameya_fetched_bytes", "Bytes of decoded record batches, as fetched.", labels=_TOPIC)
    handler = CounterMetricFamily("sarameya_handler_seconds", "Seconds of work in the handler.", labels=_TOPIC)
    backpressure = CounterMetricFamily(
        "sarameya_backpressure_seconds",
        "Seconds for which partitions were not fetched due to backpressure.",
        labels=_TOPIC,
    )
    for member in members:
        for topic, total in totals(member).items():
            labels = _labels(member, topic)
            records.add_metric(labels, total.records)
            size.add_metric(labels, total.size_bytes)
            handler.add_metric(labels, total.handler_seconds)
            backpressure.add_metric(labels, total.backpressure_seconds)
    yield from (records, size, handler, backpressure)


def _meters(members: Iterable[MemberSnapshot]) -> Iterator[Metric]:
    requests = HistogramMetricFamily(
        "sarameya_request_duration_seconds",
        "Seconds until brokers responded, including requests that they may hold (Fetch, JoinGroup).",
        labels=[*_MEMBER, "request"],
    )
    rebalances = CounterMetricFamily("sarameya_rebalances", "Rebalances by their cause.", labels=[*_MEMBER, "reason"])
    lasted = HistogramMetricFamily(
        "sarameya_rebalance_duration_seconds", "Seconds from leaving the stable state to the return.", labels=_MEMBER
    )
    retries = CounterMetricFamily("sarameya_retries", "Retries by operation.", labels=[*_MEMBER, "what"])
    blocked = CounterMetricFamily(
        "sarameya_loop_blocked_seconds",
        "Seconds for which the event loop was blocked, each time for a third of the session timeout or longer.",
        labels=_MEMBER,
    )
    events = CounterMetricFamily("sarameya_events", "Events by class.", labels=[*_MEMBER, "event"])
    for member in members:
        meters = member.meters
        for request, histogram in meters.requests.items():
            _add(requests, _labels(member, request), histogram)
        for reason, count in meters.rebalances.items():
            rebalances.add_metric(_labels(member, reason), count)
        _add(lasted, _labels(member), meters.rebalance_seconds)
        for what, count in meters.retries.items():
            retries.add_metric(_labels(member, what), count)
        blocked.add_metric(_labels(member), meters.loop_blocked_seconds)
        for event, count in {**dict.fromkeys(_EVENTS, 0), **meters.events}.items():
            events.add_metric(_labels(member, event), count)
    yield from (requests, rebalances, lasted, retries, blocked, events)


def _landings(members: Iterable[MemberSnapshot]) -> Iterator[Metric]:
    seconds = HistogramMetricFamily("sarameya_landing_duration_seconds", "Seconds of each landing.", labels=_TOPIC)
    rows = HistogramMetricFamily("sarameya_landing_rows", "Rows of each landing.", labels=_TOPIC)
    size = HistogramMetricFamily("sarameya_landing_size_bytes", "Bytes of each landing.", labels=_TOPIC)
    failures = CounterMetricFamily("sarameya_landing_failures", "Failed attempts to land.", labels=_TOPIC)
    letters = CounterMetricFamily("sarameya_dead_letters", "Records written to the dead letters.", labels=_TOPIC)
    gone = CounterMetricFamily("sarameya_offsets_gone", "Offsets deleted before they were read.", labels=_TOPIC)
    requests = CounterMetricFamily(
        "sarameya_store_requests",
        "Requests to the object stores of tables, without those of Spark and delta-rs.",
        labels=[*_MEMBER, "operation"],
    )
    sent = CounterMetricFamily("sarameya_store_sent_bytes", "Bytes of objects that were put.", labels=_MEMBER)
    received = CounterMetricFamily("sarameya_store_received_bytes", "Bytes of objects that were read.", labels=_MEMBER)
    for member in members:
        for operation, count in member.meters.store_requests.items():
            requests.add_metric(_labels(member, operation), count)
        sent.add_metric(_labels(member), member.meters.store_sent_bytes)
        received.add_metric(_labels(member), member.meters.store_received_bytes)
        for topic, meters in _topic_meters(member).items():
            labels = _labels(member, topic)
            _add(seconds, labels, meters.landing_seconds)
            _add(rows, labels, meters.landing_rows)
            _add(size, labels, meters.landing_bytes)
            failures.add_metric(labels, meters.landing_failures)
            letters.add_metric(labels, meters.dead_letters)
            gone.add_metric(labels, meters.offsets_gone)
    yield from (seconds, rows, size, failures, letters, gone, requests, sent, received)


def _topic_meters(member: MemberSnapshot) -> Mapping[str, TopicMeters]:
    """Return the meters of each topic with assigned partitions, even before anything was counted."""
    return {**{one.partition.topic: TopicMeters() for one in member.status.partitions}, **member.meters.topics}


def _add(family: HistogramMetricFamily, labels: list[str], histogram: Histogram) -> None:
    text = cast(Callable[[float], str], floatToGoString)  # untyped
    buckets = [(text(bound), count) for bound, count in histogram.cumulative()]
    family.add_metric(labels, [*buckets, ("+Inf", histogram.count)], histogram.total)
