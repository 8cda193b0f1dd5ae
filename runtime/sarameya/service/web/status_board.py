"""The status page's content: reads a service's members each second, and makes the document, health and metrics."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import trio

from sarameya.service.monitor.health import SILENT_AFTER, Health, health
from sarameya.service.monitor.members import MemberSource, WorkerStatus
from sarameya.service.monitor.progress_tracker import ProgressTracker
from sarameya.service.web.page_feed import NO_EVENTS, PageFeed
from sarameya.service.web.status_document import document, history, history_key
from sarameya.service.web.time_series import TimeSeries
from sarameya.telemetry.snapshot import MemberSnapshot

logger = logging.getLogger("sarameya")

INTERVAL = 1.0


class PageSource(Protocol):
    """The source of the pages' content."""

    @property
    def has_document(self) -> bool: ...

    def render(self, known: int = NO_EVENTS) -> tuple[str, int]:
        """Return the document, as `PageFeed.render` does."""

    async def run(self) -> None:
        """Update regularly, until cancelled."""

    async def wait_for_update(self) -> bool:
        """Wait for the next update. Return False if there are no more updates."""

    def health(self) -> Health: ...

    def snapshots(self) -> Sequence[MemberSnapshot]:
        """Return snapshots of the reporting members, for metrics."""

    def ages(self) -> Sequence[tuple[str, int, float]]:
        """Return the group, the worker, and the seconds since its last report or its start."""

    def full_document(self) -> dict[str, Any]:
        """Return the document with the plotted points."""


class StatusBoard(PageFeed):
    """The content of one service's pages. `why_stopping` returns an empty text while the service is not stopping."""

    def __init__(
        self,
        group: str,
        members: MemberSource,
        *,
        stall_after: float,
        why_stopping: Callable[[], str],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._group = group
        self._members = members
        self._stall_after = stall_after
        self._why_stopping = why_stopping
        self._wall_clock = wall_clock
        self._progress = ProgressTracker()
        self._series = TimeSeries()

    async def run(self) -> None:
        """Update each second, until cancelled."""
        is_logged = False
        try:
            while True:
                try:
                    self.update()
                except Exception:
                    if not is_logged:
                        logger.exception("the content of the status page cannot be made")
                    is_logged = True
                await trio.sleep(INTERVAL)
        finally:
            self.end()

    def update(self) -> None:
        """Publish a new document from the members' present state."""
        members = self._read_members()
        self._series.update(members, trio.current_time(), self._wall_clock())
        self.publish(partial(self._document, members), partial(history, members), history_key(members))

    def health(self) -> Health:
        """Return the health now."""
        return self._health(self._read_members())

    def snapshots(self) -> list[MemberSnapshot]:
        """Return snapshots of the members that have reported lately, for metrics.

        A silent member may no longer have the state and the partitions of its last report.
        """
        statuses = [status for status in self._members.statuses() if status.age <= SILENT_AFTER]
        return [status.snapshot for status in statuses if status.snapshot is not None]

    def ages(self) -> list[tuple[str, int, float]]:
        """Return the seconds since the last report, or since the start, of each running worker."""
        statuses = self._members.statuses()
        return [(self._group, status.worker, status.age) for status in statuses if status.snapshot or status.age]

    def full_document(self) -> dict[str, Any]:
        """Return the present document, with the plotted points."""
        members = self._read_members()
        return {**self._document(members), **history(members), "points": self._series.columns}

    def _read_members(self) -> Sequence[WorkerStatus]:
        """Return the members' present state, and track their progress: a partition may be idle between two updates."""
        members = self._members.statuses()
        snapshots = [status.snapshot for status in members if status.snapshot is not None]
        self._progress.update(snapshots, trio.current_time())
        return members

    def _health(self, members: Sequence[WorkerStatus]) -> Health:
        return health(
            members,
            self._progress,
            trio.current_time(),
            stall_after=self._stall_after,
            stopping=self._why_stopping(),
        )

    def _document(self, members: Sequence[WorkerStatus]) -> dict[str, Any]:
        content = document(
            self._group,
            members,
            self._health(members),
            self._series,
            wall_clock=self._wall_clock(),
            stopping=self._why_stopping(),
        )
        return {**content, "point": self._series.last}
