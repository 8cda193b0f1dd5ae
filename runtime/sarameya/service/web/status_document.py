"""The document behind the status page, and the content of `/status.json`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from sarameya._version import __version__
from sarameya.service.monitor.health import Health
from sarameya.service.monitor.members import WorkerStatus
from sarameya.service.web.time_series import TimeSeries
from sarameya.status import OverdueHandler, PartitionStatus


def document(
    group: str, members: Sequence[WorkerStatus], health: Health, series: TimeSeries, *, wall_clock: float, stopping: str
) -> dict[str, Any]:
    """Return a service's document without its `history`. Unknown offsets are -1, times are seconds."""
    return {
        "version": __version__,
        "group": group,
        "at": wall_clock,
        "stopping": stopping,
        "ready": health.is_ready,
        "reasons": [*health.not_ready, *health.not_alive],
        "explained": health.explained,
        "members": [_member(member) for member in members],
        "partitions": [row for member in members for row in _partitions(member, series)],
    }


def history(members: Sequence[WorkerStatus]) -> dict[str, Any]:
    """Return recent events and batches, the newest first."""
    return {
        "events": sorted(_events(members, is_landing=False), key=_time_and_number, reverse=True),
        "landings": sorted(_events(members, is_landing=True), key=_time_and_number, reverse=True),
    }


def history_key(members: Sequence[WorkerStatus]) -> object:
    """Return a key that changes with the history. It has times, since a restarted worker numbers from 1 again."""
    return [(member.worker, event.at, event.number) for member in members for event in member.happenings]


def _member(member: WorkerStatus) -> dict[str, Any]:
    process = {"worker": member.worker, "pid": member.pid, "age": round(member.age, 1), "failure": member.failure}
    process["restart"] = "" if member.restart is None else str(member.restart)
    if member.snapshot is None:
        return {**process, "state": "starting"}
    status = member.snapshot.status
    return {
        **process,
        "state": status.state.lower().replace("_", " "),
        "seconds": -1 if member.failure else round(status.seconds, 1),  # unknown for a member that has failed
        "member_id": status.member_id,
        "generation": status.generation,
        "assignor": status.assignor,
        "is_leader": status.is_leader,
        "coordinator": status.coordinator,
        "assigned": len(status.partitions),
        "buffered_bytes": status.buffered_bytes,
        "budget_bytes": status.budget_bytes,
        "rebalances": member.snapshot.meters.rebalances,
    }


def _partitions(member: WorkerStatus, series: TimeSeries) -> Iterator[dict[str, Any]]:
    for status in member.snapshot.status.partitions if member.snapshot is not None else ():
        rate = series.records_per_second(member.worker, status.partition)
        yield {"worker": member.worker, **_partition(status), "records_a_second": round(rate, 1)}


def _partition(status: PartitionStatus) -> dict[str, Any]:
    fields = attrs.asdict(status, recurse=False)
    del fields["partition"]
    rounded = {name: round(value, 1) if isinstance(value, float) else value for name, value in fields.items()}
    return {
        **rounded,
        "topic": status.partition.topic,
        "partition": status.partition.partition,
        "activity": str(status.activity),
        "overdue": None if status.overdue is None else _overdue(status.overdue),
    }


def _overdue(handler: OverdueHandler) -> dict[str, Any]:
    """Return the overdue handler without its stack: the document is sent every second, and the event has the stack."""
    return {"offset": handler.offset, "last_offset": handler.last_offset, "seconds": round(handler.seconds, 1)}


def _events(members: Sequence[WorkerStatus], *, is_landing: bool) -> Iterator[dict[str, Any]]:
    for member in members:
        for event in member.happenings:
            if (event.landing is not None) is is_landing:
                yield {"worker": member.worker, **attrs.asdict(event)}


def _time_and_number(event: dict[str, Any]) -> tuple[float, int]:
    return event["at"], event["number"]
