"""Groups, members, offsets and reports for the tests of `sarameya groups`."""

from __future__ import annotations

from collections.abc import Mapping

from sarameya.model import Assignment, CommittedOffset, TopicPartition
from sarameya.net.log_offsets import LogOffsets
from sarameya.protocol.cluster.described_groups import DescribedGroup, DescribedMember
from sarameya.protocol.cluster.metadata import Broker
from sarameya.service.groups.report import GroupReport, report

BROKER = Broker(1, "kafka", 9092)


def tp(text: str) -> TopicPartition:
    """Parse a partition such as `orders-0`."""
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def offsets(values: Mapping[str, int]) -> LogOffsets:
    return LogOffsets({tp(name): offset for name, offset in values.items()})


def commits(values: Mapping[str, int]) -> dict[TopicPartition, CommittedOffset]:
    return {tp(name): CommittedOffset(offset) for name, offset in values.items()}


def member(name: str, assignment: Assignment | None, *topics: str, problem: str = "") -> DescribedMember:
    return DescribedMember(f"{name}-id", name, f"/{name}", None, topics or ("orders",), assignment, problem)


def group(
    *members: DescribedMember,
    state: str = "Stable",
    kind: str = "classic",
    protocol_type: str = "consumer",
    assignor: str = "range",
) -> DescribedGroup:
    return DescribedGroup("g", state, BROKER, kind, protocol_type, assignor, members)


def report_of(
    described: DescribedGroup,
    committed: Mapping[str, int] | None = None,
    ends: Mapping[str, int] | None = None,
    starts: Mapping[str, int] | None = None,
    counts: Mapping[str, int] | None = None,
    missing: Mapping[str, str] | None = None,
    offsets_partitions: int | None = 50,
) -> GroupReport:
    """Return the report of a group whose logs start at 0, or at `starts`, and end at `ends`."""
    ends = ends or {}
    reasons = {tp(name): reason for name, reason in (missing or {}).items()}
    log_starts = offsets({**dict.fromkeys(ends, 0), **(starts or {})})
    log_ends = LogOffsets(offsets(ends).found, reasons)
    return report(described, commits(committed or {}), counts or {}, log_starts, log_ends, offsets_partitions)
