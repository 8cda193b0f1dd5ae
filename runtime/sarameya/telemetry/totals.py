"""Totals of a topic's messages, including claims that still run. Pure."""

from __future__ import annotations

import attrs

from sarameya.telemetry.snapshot import MemberSnapshot


@attrs.define(slots=True)
class Totals:
    """Totals of one topic, for one member, since it was created."""

    records: int = 0
    size_bytes: int = 0
    handler_seconds: float = 0.0
    backpressure_seconds: float = 0.0


def totals(member: MemberSnapshot) -> dict[str, Totals]:
    """Return the totals of each topic of which the member owns, or has owned, partitions."""
    found: dict[str, Totals] = {}
    for name, topic in member.meters.topics.items():
        found[name] = Totals(topic.records, topic.size_bytes, topic.handler_seconds, topic.backpressure_seconds)
    for partition in member.status.partitions:
        total = found.setdefault(partition.partition.topic, Totals())
        total.records += partition.records_total
        total.size_bytes += partition.bytes_total
        total.handler_seconds += partition.handler_seconds
        total.backpressure_seconds += partition.backpressure_seconds
    return found
