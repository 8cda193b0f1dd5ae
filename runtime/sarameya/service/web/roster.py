"""The members that run in this process, for whoever asks what they do."""

from __future__ import annotations

import os
from collections.abc import Iterable

import attrs
import trio

from sarameya.service.web.members import Due, Heard
from sarameya.service.web.recent import Recent, told_in_a_line
from sarameya.telemetry.snapshot import MemberSnapshot, Metered


@attrs.define(slots=True)
class _Entry:
    recent: Recent = attrs.field(factory=Recent)
    group: Metered | None = None
    failure: str = ""
    due: Due | None = None


class Roster:
    """One entry a member, whichever ConsumerGroup it is at the time: one that failed is made anew."""

    def __init__(self, workers: Iterable[int]) -> None:
        self._entries = {worker: _Entry() for worker in workers}

    def recent(self, worker: int) -> Recent:
        """An observer for the member's events."""
        return self._entries[worker].recent

    def begins(self, worker: int, group: Metered) -> None:
        """The member is this group now."""
        entry = self._entries[worker]
        entry.group, entry.failure, entry.due = group, "", None

    def failed(self, worker: int, error: Exception) -> None:
        """It is none any more."""
        entry = self._entries[worker]
        entry.failure = told_in_a_line(error)
        entry.recent.failed(error)

    def restarts(self, worker: int, delay: float, failures: int) -> None:
        """It is made anew in so many seconds, after so many failures in a row. On the event loop."""
        self._entries[worker].due = Due(trio.current_time() + delay, failures)

    def snapshots(self) -> list[MemberSnapshot]:
        """Of those that have begun, now. On the event loop."""
        return [MemberSnapshot.of(one.group, worker) for worker, one in self._entries.items() if one.group is not None]

    def heard(self) -> list[Heard]:
        """Of each, now. On the event loop."""
        now = trio.current_time()
        return [
            Heard(
                worker=worker,
                snapshot=None if entry.group is None else MemberSnapshot.of(entry.group, worker),
                pid=os.getpid(),
                failure=entry.failure,
                restart=entry.due.seen(now) if entry.due else None,
                happenings=tuple(entry.recent),
            )
            for worker, entry in self._entries.items()
        ]
