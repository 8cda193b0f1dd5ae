"""Counters for monitoring: they only grow, and the monitoring system computes rates. Pure.

`Meter` counts events as an observer, and durations of requests. The present state is in `status.py`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import attrs

from sarameya.observe import (
    RETRIED,
    ClaimEnded,
    DeadLettered,
    Event,
    Landed,
    LandingFailed,
    LoopBlocked,
    MembershipChanged,
    OffsetReset,
    Retrying,
    StoreUsed,
)

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the buckets of durations: from the response of a near broker to the rebalance of a large group."""
ROWS = tuple(float(10**power) for power in range(8))
"""Upper bounds of the buckets of rows in a write to a table."""
BYTES = tuple(float(2**power) for power in range(12, 31, 2))
"""Upper bounds of the buckets of bytes in a write to a table: from 4 KiB to a GiB."""
REBALANCE_REASONS = {
    "first_join": "the member was not in the group: it starts, or has subscribed again after it left",
    "own_wish": "requested by the member: it has changed its subscription, finished a revocation, or ended its session",
    "group_changed": "other members joined or left, or topics changed",
    "member_forgotten": "the coordinator does not know the member any more: the group has removed it",
    "generation_dropped": "the group has continued without the member",
}
"""Causes of a rebalance, and their explanations."""
_REASONS = {"join_wanted": "own_wish", "rebalance": "group_changed"}
"""`MembershipChanged.trigger` -> cause, where their names differ."""
_OUTSIDE = frozenset({"UNJOINED", "LEAVING"})
"""States of a member that is not in the group."""
_SETTLED = frozenset({"STABLE", "LEAVING", "UNJOINED", "FENCED"})
"""States without a rebalance in progress."""


@attrs.define(slots=True)
class Histogram:
    """Distribution of values over buckets."""

    bounds: tuple[float, ...] = SECONDS
    counts: list[int] = attrs.field(default=attrs.Factory(lambda self: [0] * (len(self.bounds) + 1), takes_self=True))
    """Number of values in each bucket; the last bucket has no upper bound."""
    total: float = 0.0
    """Sum of the values."""

    def observe(self, value: float) -> None:
        """Count one value, in the unit of `bounds`."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """Number of values."""
        return sum(self.counts)

    def cumulative(self) -> list[tuple[float, int]]:
        """Return each bound with the number of values up to it."""
        rows, total = [], 0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            total += count
            rows.append((bound, total))
        return rows


@attrs.define(slots=True)
class TopicMeters:
    """Counts of one topic, over all partitions that this member has read.

    `records`, `size_bytes` and the two sums of seconds cover only claims that have ended. Running claims are in the
    status.
    """

    records: int = 0
    """Number of messages."""
    size_bytes: int = 0
    handler_seconds: float = 0.0
    backpressure_seconds: float = 0.0
    offsets_gone: int = 0
    """Offsets that were deleted before they were read."""
    dead_letters: int = 0
    landing_failures: int = 0
    landing_seconds: Histogram = attrs.field(factory=Histogram)
    landing_rows: Histogram = attrs.field(factory=lambda: Histogram(ROWS))
    landing_bytes: Histogram = attrs.field(factory=lambda: Histogram(BYTES))


@attrs.define(slots=True)
class Meters:
    """Counts of one member, over all of its sessions."""

    events: dict[str, int] = attrs.field(factory=dict)
    """Number of events, by class name."""
    retries: dict[str, int] = attrs.field(factory=lambda: dict.fromkeys(RETRIED, 0))
    """Number of retries, by `Retrying.kind`."""
    requests: dict[str, Histogram] = attrs.field(factory=dict)
    """Seconds until the response, by request; brokers may hold a `Fetch` until there are records."""
    rebalances: dict[str, int] = attrs.field(factory=lambda: dict.fromkeys(REBALANCE_REASONS, 0))
    """Number of rebalances, by cause (`REBALANCE_REASONS`)."""
    rebalance_seconds: Histogram = attrs.field(factory=Histogram)
    """Seconds of each rebalance, from its start until the member is STABLE."""
    loop_blocked_seconds: float = 0.0
    """Seconds for which the event loop was blocked: the sum of `LoopBlocked.seconds`."""
    store_requests: dict[str, int] = attrs.field(factory=dict)
    """Requests to the object stores of tables, by operation: the sums of `StoreUsed`."""
    store_sent_bytes: int = 0
    store_received_bytes: int = 0
    topics: dict[str, TopicMeters] = attrs.field(factory=dict)

    def topic(self, name: str) -> TopicMeters:
        """Return the counts of one topic, created if necessary."""
        return self.topics.setdefault(name, TopicMeters())


class Meter:
    """Observer that updates a member's meters. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.meters = Meters()
        self._clock = clock
        self._unstable_since: float | None = None

    def __call__(self, event: Event) -> None:
        meters = self.meters
        name = type(event).__name__
        meters.events[name] = meters.events.get(name, 0) + 1
        match event:
            case Retrying(kind=kind):
                meters.retries[kind] = meters.retries.get(kind, 0) + 1
            case MembershipChanged(before=before, after=after, trigger=trigger):
                self._count_rebalance(before, after, trigger)
            case OffsetReset(partition=partition, gone=gone):
                meters.topic(partition.topic).offsets_gone += gone
            case ClaimEnded(partition=partition):
                topic = meters.topic(partition.topic)
                topic.records += event.records
                topic.size_bytes += event.size_bytes
                topic.handler_seconds += event.handler_seconds
                topic.backpressure_seconds += event.backpressure_seconds
            case Landed(partition=partition):
                self._count_landed(meters.topic(partition.topic), event)
            case LandingFailed(partition=partition):
                meters.topic(partition.topic).landing_failures += 1
            case LoopBlocked(seconds=seconds):
                meters.loop_blocked_seconds += seconds
            case StoreUsed(requests=requests):
                for operation, number in requests.items():
                    meters.store_requests[operation] = meters.store_requests.get(operation, 0) + number
                meters.store_sent_bytes += event.sent_bytes
                meters.store_received_bytes += event.received_bytes
            case DeadLettered(partition=partition, count=count):
                meters.topic(partition.topic).dead_letters += count

    def answered(self, request: str, seconds: float) -> None:
        """Record the seconds until a broker's response."""
        name = request.removesuffix("Request")
        histogram = self.meters.requests.get(name)
        if histogram is None:
            histogram = self.meters.requests[name] = Histogram()
        histogram.observe(seconds)

    def _count_landed(self, topic: TopicMeters, event: Landed) -> None:
        topic.landing_seconds.observe(event.seconds)
        if event.rows >= 0:
            topic.landing_rows.observe(event.rows)
        if event.size_bytes >= 0:
            topic.landing_bytes.observe(event.size_bytes)

    def _count_rebalance(self, before: str, after: str, trigger: str) -> None:
        if (before in _OUTSIDE or before == "STABLE") and after not in _SETTLED:
            reason = "first_join" if before in _OUTSIDE else _REASONS.get(trigger, trigger)
            self.meters.rebalances[reason] = self.meters.rebalances.get(reason, 0) + 1
            self._unstable_since = self._clock()
        elif self._unstable_since is not None and after in _SETTLED:
            if after == "STABLE":
                self.meters.rebalance_seconds.observe(self._clock() - self._unstable_since)
            self._unstable_since = None
