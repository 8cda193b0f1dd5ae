"""Counts of what happens, as monitors want them: they only grow, and somebody else finds out how fast. Pure.

`Meter` is an observer, and is told how long brokers take to answer. What is going on at a moment, `status` says.
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
)

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""The upper bounds of a duration's buckets: from an answer of a broker's next door to a rebalance of many members."""
ROWS = tuple(float(10**power) for power in range(8))
"""Of the rows of a landing."""
BYTES = tuple(float(2**power) for power in range(12, 31, 2))
"""Of its size: from 4 KiB to a GiB."""
REBALANCE_REASONS = {
    "first_join": "it was no member: it begins, or has subscribed anew after it left",
    "own_wish": "it has subscribed to something else, given up partitions to others, or ended its session",
    "group_changed": "members or topics came or went, as the coordinator or metadata tell",
    "member_forgotten": "the coordinator does not know it any more: the group has given it up",
    "generation_dropped": "the group has gone on without it",
}
"""What sets a rebalance off, in one word, and in more."""
_REASONS = {"join_wanted": "own_wish", "rebalance": "group_changed"}
"""Of a member, by `MembershipChanged.trigger`; the others are called what they are."""
_OUTSIDE = frozenset({"UNJOINED", "LEAVING"})
_SETTLED = frozenset({"STABLE", "LEAVING", "UNJOINED", "FENCED"})
"""States in which no rebalance is under way."""


@attrs.define(slots=True)
class Histogram:
    """How many values there were of which size."""

    bounds: tuple[float, ...] = SECONDS
    counts: list[int] = attrs.field(default=attrs.Factory(lambda self: [0] * (len(self.bounds) + 1), takes_self=True))
    """In each bucket, the last one without an upper bound."""
    total: float = 0.0
    """Their sum."""

    def observe(self, value: float) -> None:
        """Count one value, in the unit of `bounds`."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)

    def cumulative(self) -> list[tuple[float, int]]:
        """Each bound with how many were no larger than that."""
        rows, so_far = [], 0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            so_far += count
            rows.append((bound, so_far))
        return rows


@attrs.define(slots=True)
class TopicMeters:
    """Of one topic, whichever of its partitions this member has had."""

    records: int = 0
    """Messages of claims that have ended, as all of these four; of those that have not, their status tells."""
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
    """Of one member, over all of its sessions."""

    events: dict[str, int] = attrs.field(factory=dict)
    """How many of each kind, by the class's name."""
    retries: dict[str, int] = attrs.field(factory=lambda: dict.fromkeys(RETRIED, 0))
    """By what is tried again: `Retrying.kind`."""
    requests: dict[str, Histogram] = attrs.field(factory=dict)
    """How long answers took, in seconds, by request: `Fetch`, which brokers may hold until there is something."""
    rebalances: dict[str, int] = attrs.field(factory=lambda: dict.fromkeys(REBALANCE_REASONS, 0))
    """By what set them off, of `REBALANCE_REASONS`."""
    rebalance_seconds: Histogram = attrs.field(factory=Histogram)
    """How long each took: from when the member was no longer stable to when it was again."""
    loop_blocked_seconds: float = 0.0
    """How long the event loop was blocked, in all: the sum of `LoopBlocked.seconds`."""
    topics: dict[str, TopicMeters] = attrs.field(factory=dict)

    def topic(self, name: str) -> TopicMeters:
        """Of one topic, from now on at the latest."""
        return self.topics.setdefault(name, TopicMeters())


class Meter:
    """Keeps a member's meters. An observer; `clock` tells seconds."""

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
                self._member_moved(before, after, trigger)
            case OffsetReset(partition=partition, gone=gone):
                meters.topic(partition.topic).offsets_gone += gone
            case ClaimEnded(partition=partition):
                topic = meters.topic(partition.topic)
                topic.records += event.records
                topic.size_bytes += event.size_bytes
                topic.handler_seconds += event.handler_seconds
                topic.backpressure_seconds += event.backpressure_seconds
            case Landed(partition=partition):
                self._landed(meters.topic(partition.topic), event)
            case LandingFailed(partition=partition):
                meters.topic(partition.topic).landing_failures += 1
            case LoopBlocked(seconds=seconds):
                meters.loop_blocked_seconds += seconds
            case DeadLettered(partition=partition, count=count):
                meters.topic(partition.topic).dead_letters += count

    def answered(self, request: str, seconds: float) -> None:
        """A broker's answer took so long."""
        name = request.removesuffix("Request")
        found = self.meters.requests.get(name)
        if found is None:
            found = self.meters.requests[name] = Histogram()
        found.observe(seconds)

    def _landed(self, topic: TopicMeters, event: Landed) -> None:
        topic.landing_seconds.observe(event.seconds)
        if event.rows >= 0:
            topic.landing_rows.observe(event.rows)
        if event.size_bytes >= 0:
            topic.landing_bytes.observe(event.size_bytes)

    def _member_moved(self, before: str, after: str, trigger: str) -> None:
        if (before in _OUTSIDE or before == "STABLE") and after not in _SETTLED:
            reason = "first_join" if before in _OUTSIDE else _REASONS.get(trigger, trigger)
            self.meters.rebalances[reason] = self.meters.rebalances.get(reason, 0) + 1
            self._unstable_since = self._clock()
        elif self._unstable_since is not None and after in _SETTLED:
            if after == "STABLE":
                self.meters.rebalance_seconds.observe(self._clock() - self._unstable_since)
            self._unstable_since = None
