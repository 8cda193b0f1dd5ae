"""The interface to a service's members, for pages, metrics, health, the log and the service manager."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import attrs

from sarameya.service.monitor.recent_events import RecentEvent
from sarameya.telemetry.snapshot import MemberSnapshot


@attrs.frozen(slots=True)
class Restart:
    """A planned restart of a failed member: the seconds until the restart, and the failures in a row."""

    seconds: float
    failures: int

    def __str__(self) -> str:
        when = f"restarting in {math.ceil(self.seconds)} s" if self.seconds else "restarting"
        return f"{when} (failures in a row: {self.failures})"


@attrs.frozen(slots=True)
class PendingRestart:
    """A planned restart, with its time on the event loop's clock."""

    at: float
    failures: int

    def remaining(self, now: float) -> Restart:
        """Return the restart with the seconds that remain at `now`."""
        return Restart(max(self.at - now, 0.0), self.failures)


@attrs.frozen(slots=True, kw_only=True)
class WorkerStatus:
    """The last known state of a member, and its age."""

    worker: int
    snapshot: MemberSnapshot | None = None
    """The member's own report; None before the first report."""
    age: float = 0.0
    """Seconds since the report."""
    pid: int = 0
    failure: str = ""
    """The reason why the member does not run, if it failed and will be restarted."""
    restart: Restart | None = None
    """The planned restart, if it is known."""
    happenings: tuple[RecentEvent, ...] = ()
    """Recent events, the newest last."""


class MemberSource(Protocol):
    """The source of the members' states."""

    def statuses(self) -> Sequence[WorkerStatus]:
        """Return the last known state of each member."""
