"""Statuses of partitions and workers, as the pages of a service receive them."""

from __future__ import annotations

from typing import Any

from sarameya import TopicPartition
from sarameya.meters import Meters
from sarameya.service.monitor.members import WorkerStatus
from sarameya.status import Activity, GroupStatus, PartitionStatus
from sarameya.telemetry.snapshot import MemberSnapshot

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def partition(activity: Activity = Activity.FETCHING, *, of: TopicPartition = ORDERS_0, **more: Any) -> PartitionStatus:
    """Return the status of a partition that has read everything from a live broker, except for `more`."""
    rest: dict[str, Any] = {"position": 10, "high_water_mark": 10, "lag": 0, "marked": 10, "asked_seconds": 0.1}
    return PartitionStatus(partition=of, activity=activity, **{**rest, **more})


def worker_status(
    *partitions: PartitionStatus,
    worker: int = 1,
    state: str = "STABLE",
    seconds: float = 5.0,
    meters: Meters | None = None,
    **more: Any,
) -> WorkerStatus:
    """Return the last report of a worker whose member owns these partitions."""
    status = GroupStatus(group="g", state=state, seconds=seconds, partitions=partitions)
    return WorkerStatus(worker=worker, snapshot=MemberSnapshot(worker, status, meters or Meters()), **more)
