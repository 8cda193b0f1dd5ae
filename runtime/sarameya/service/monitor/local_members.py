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
    recent: EventRecorder = attrs.field(factory=EventRecorder)
    group: Metered | None = None
    failure: str = ""
    due: PendingRestart | None = None


class LocalMembers:
    """Entries of the members, whichever ConsumerGroup each is at the time: a restart makes another one."""

    def __init__(self, workers: Iterable[int]) -> None:
        self._entries = {worker: _Entry() for worker in workers}

    def recent(self, worker: int) -> EventRecorder:
        """Return the observer for the member's events."""
        return self._entries[worker].recent

    def begins(self, worker: int, group: Metered) -> None:
        """Set the member's group after its start."""
        entry = self._entries[worker]
        entry.group, entry.failure, entry.due = group, "", None

    def failed(self, worker: int, error: Exception) -> None:
        """Record the failure of the member."""
        entry = self._entries[worker]
        entry.failure = error_summary(error)
        entry.recent.failed(error)

    def restarts(self, worker: int, delay: float, failures: int) -> None:
        """Record a restart in `delay` seconds, after so many failures in a row. On the event loop."""
        self._entries[worker].due = PendingRestart(trio.current_time() + delay, failures)

    def snapshots(self) -> list[MemberSnapshot]:
        """Return snapshots of the members that have started. On the event loop."""
        return [MemberSnapshot.of(one.group, worker) for worker, one in self._entries.items() if one.group is not None]

    def statuses(self) -> list[WorkerStatus]:
        """Return the state of each member now. On the event loop."""
        now = trio.current_time()
        return [
            WorkerStatus(
                worker=worker,
                snapshot=None if entry.group is None else MemberSnapshot.of(entry.group, worker),
                pid=os.getpid(),
                failure=entry.failure,
                restart=entry.due.seen(now) if entry.due else None,
                happenings=tuple(entry.recent),
            )
            for worker, entry in self._entries.items()
        ]
