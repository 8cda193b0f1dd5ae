"""Reports and plans as JSON documents for programs. `docs/groups.md` describes their fields, which are stable. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sarameya.model import Assignment
from sarameya.protocol.cluster.described_groups import DescribedMember, Listing
from sarameya.protocol.cluster.metadata import Broker
from sarameya.protocol.cluster.offsets_partition import OFFSETS_TOPIC
from sarameya.service.groups.advice import advice
from sarameya.service.groups.report import GroupReport, PartitionReport
from sarameya.service.groups.reset import OffsetMove

Document = dict[str, Any]


def listing_document(listing: Listing) -> Document:
    """Return the document of `sarameya groups list`."""
    return {
        "groups": [
            {
                "group": group.group,
                "state": group.state,
                "type": group.type,
                "protocol_type": group.protocol_type,
                "coordinator": _broker(group.coordinator),
            }
            for group in listing.groups
        ],
        "unreachable": [{"broker": _broker(broker), "error": str(error)} for broker, error in listing.failures],
    }


def report_document(report: GroupReport) -> Document:
    """Return the document of one group of `sarameya groups describe`."""
    group = report.group
    return {
        "group": group.group,
        "state": group.state,
        "type": group.type,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor or None,
        "coordinator": _broker(group.coordinator),
        "offsets_partition": _offsets_partition(report),
        "lag": report.lag,
        "members": [_member(member) for member in group.members],
        "partitions": [_partition(row) for row in report.partitions],
        "advice": advice(report),
    }


def moves_document(group: str, moves: Iterable[OffsetMove], *, executed: bool) -> Document:
    """Return the document of `sarameya groups offsets reset`."""
    return {
        "group": group,
        "executed": executed,
        "partitions": [
            {
                "topic": move.partition.topic,
                "partition": move.partition.partition,
                "committed_offset": move.before,
                "new_offset": move.after,
                "log_start_offset": move.log_start,
                "log_end_offset": move.log_end,
                "lag": move.lag_before,
                "new_lag": move.lag_after,
                "note": move.note or None,
                "error": move.error or None,
            }
            for move in moves
        ],
    }


def deletions_document(group: str, moves: Iterable[OffsetMove], *, executed: bool) -> Document:
    """Return the document of `sarameya groups offsets delete`."""
    return {
        "group": group,
        "executed": executed,
        "partitions": [
            {
                "topic": move.partition.topic,
                "partition": move.partition.partition,
                "committed_offset": move.before,
                "error": move.error or None,
            }
            for move in moves
        ],
    }


def _broker(broker: Broker) -> Document:
    return {"id": broker.node_id, "host": broker.host, "port": broker.port}


def _offsets_partition(report: GroupReport) -> Document | None:
    if report.offsets_partition is None:
        return None
    return {
        "topic": OFFSETS_TOPIC,
        "partition": report.offsets_partition,
        "partitions": report.offsets_partitions,
    }


def _member(member: DescribedMember) -> Document:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "topics": list(member.topics),
        "assignment": None if member.assignment is None else _assignment(member.assignment),
        "problem": member.problem or None,
    }


def _assignment(assignment: Assignment) -> list[Document]:
    return [{"topic": topic, "partitions": list(numbers)} for topic, numbers in sorted(assignment.items())]


def _partition(row: PartitionReport) -> Document:
    return {
        "topic": row.partition.topic,
        "partition": row.partition.partition,
        "committed_offset": row.committed.offset if row.committed else None,
        "committed_metadata": row.committed.metadata if row.committed else None,
        "log_start_offset": row.log_start,
        "log_end_offset": row.log_end,
        "lag": row.lag,
        "member_id": row.member.member_id if row.member else None,
        "client_id": row.member.client_id if row.member else None,
        "host": row.member.host if row.member else None,
        "problem": row.problem or None,
    }
