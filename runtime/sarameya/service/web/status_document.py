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
    """Return a service's document without its `news`. Unknown offsets are -1, times are seconds."""
    return {
        "version": __version__,
        "group": group,
        "at": wall_clock,
        "stopping": stopping,
        "ready": health.is_ready,
        "reasons": [*health.not_ready, *health.not_alive],
        "explained": health.explained,
        "members": [_member(heard) for heard in members],
        "partitions": [row for heard in members for row in _partitions(heard, series)],
    }


def news(members: Sequence[WorkerStatus]) -> dict[str, Any]:
    """Return recent events and batches, the newest first."""
    return {
        "events": sorted(_happenings(members, is_landing=False), key=_when, reverse=True),
        "landings": sorted(_happenings(members, is_landing=True), key=_when, reverse=True),
    }


def news_key(members: Sequence[WorkerStatus]) -> object:
    """Return a key that changes with the news. It includes times, since a restarted worker numbers from 1 again."""
    return [(heard.worker, one.at, one.number) for heard in members for one in heard.happenings]


def _member(heard: WorkerStatus) -> dict[str, Any]:
    about = {"worker": heard.worker, "pid": heard.pid, "age": round(heard.age, 1), "failure": heard.failure}
    about["restart"] = "" if heard.restart is None else str(heard.restart)
    if heard.snapshot is None:
        return {**about, "state": "starting"}
    status = heard.snapshot.status
    return {
        **about,
        "state": status.state.lower().replace("_", " "),
        "seconds": -1 if heard.failure else round(status.seconds, 1),  # of what has failed nobody counts them
        "member_id": status.member_id,
        "generation": status.generation,
        "assignor": status.assignor,
        "is_leader": status.is_leader,
        "coordinator": status.coordinator,
        "assigned": len(status.partitions),
        "buffered_bytes": status.buffered_bytes,
        "budget_bytes": status.budget_bytes,
        "rebalances": heard.snapshot.meters.rebalances,
    }


def _partitions(heard: WorkerStatus, series: TimeSeries) -> Iterator[dict[str, Any]]:
    for one in heard.snapshot.status.partitions if heard.snapshot is not None else ():
        rate = series.records_per_second(heard.worker, one.partition)
        yield {"worker": heard.worker, **_partition(one), "records_a_second": round(rate, 1)}


def _partition(one: PartitionStatus) -> dict[str, Any]:
    fields = attrs.asdict(one, recurse=False)
    del fields["partition"]
    rounded = {name: round(value, 1) if isinstance(value, float) else value for name, value in fields.items()}
    return {
        **rounded,
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "activity": str(one.activity),
        "overdue": None if one.overdue is None else _overdue(one.overdue),
    }


def _overdue(one: OverdueHandler) -> dict[str, Any]:
    """Return the overdue handler without its stack, which the event has: this is sent every second."""
    return {"offset": one.offset, "last_offset": one.last_offset, "seconds": round(one.seconds, 1)}


def _happenings(members: Sequence[WorkerStatus], *, is_landing: bool) -> Iterator[dict[str, Any]]:
    for heard in members:
        for one in heard.happenings:
            if (one.landing is not None) is is_landing:
                yield {"worker": heard.worker, **attrs.asdict(one)}


def _when(happening: dict[str, Any]) -> tuple[float, int]:
    return happening["at"], happening["number"]
