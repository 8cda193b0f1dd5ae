"""The members that run in this process."""

from __future__ import annotations

import os
from collections.abc import Iterable

import attrs
import trio

from sarameya.service.monitor.members import PendingRestart, WorkerStatus
from sarameya.service.monitor.recent_events import EventRecorder, error_summary
from sarameya.telemetry.snapshot import MemberSnapshot, Metered


@attrs.define(slots=True)
class _Entry:
    recorder: EventRecorder = attrs.field(factory=EventRecorder)
    group: Metered | None = None
    failure: str = ""
    restart: PendingRestart | None = None


class LocalMembers:
    """The members of this process by their numbers. A restart gives a member another ConsumerGroup."""

    def __init__(self, workers: Iterable[int]) -> None:
        self._entries = {worker: _Entry() for worker in workers}

    def recorder(self, worker: int) -> EventRecorder:
        """Return the observer for the member's events."""
        return self._entries[worker].recorder

    def set_group(self, worker: int, group: Metered) -> None:
        """Set the member's group after its start."""
        entry = self._entries[worker]
        entry.group, entry.failure, entry.restart = group, "", None

    def record_failure(self, worker: int, error: Exception) -> None:
        """Record the failure of the member."""
        entry = self._entries[worker]
        entry.failure = error_summary(error)
        entry.recorder.record_failure(error)

    def record_restart(self, worker: int, delay: float, failures: int) -> None:
        """Record a restart in `delay` seconds, after `failures` failures in a row. On the event loop."""
        self._entries[worker].restart = PendingRestart(trio.current_time() + delay, failures)

    def snapshots(self) -> list[MemberSnapshot]:
        """Return snapshots of the members that have started. On the event loop."""
        return [
            MemberSnapshot.of(entry.group, worker) for worker, entry in self._entries.items() if entry.group is not None
        ]

    def statuses(self) -> list[WorkerStatus]:
        """Return the state of each member now. On the event loop."""
        now = trio.current_time()
        return [
            WorkerStatus(
                worker=worker,
                snapshot=None if entry.group is None else MemberSnapshot.of(entry.group, worker),
                pid=os.getpid(),
                failure=entry.failure,
                restart=entry.restart.remaining(now) if entry.restart else None,
                happenings=tuple(entry.recorder),
            )
            for worker, entry in self._entries.items()
        ]
