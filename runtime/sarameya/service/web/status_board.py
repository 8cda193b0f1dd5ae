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
from sarameya.service.web.page_feed import NOTHING, PageFeed
from sarameya.service.web.status_document import document, news, news_key
from sarameya.service.web.time_series import TimeSeries
from sarameya.telemetry.snapshot import MemberSnapshot

logger = logging.getLogger("sarameya")

INTERVAL = 1.0


class PageSource(Protocol):
    """The source of the pages' content."""

    @property
    def has_document(self) -> bool: ...

    def render(self, known: int = NOTHING) -> tuple[str, int]:
        """Return the document, as `PageFeed.render` does."""

    async def run(self) -> None:
        """Update regularly, until cancelled."""

    async def wait_for_update(self) -> bool:
        """Wait for the next update. Return False if there is none any more."""

    def health(self) -> Health: ...

    def snapshots(self) -> Sequence[MemberSnapshot]:
        """Return snapshots of the reporting members, for metrics."""

    def ages(self) -> Sequence[tuple[str, int, float]]:
        """Return the group, the worker, and the seconds since its last report or its start."""

    def full_document(self) -> dict[str, Any]:
        """Return the document with the plotted points."""


class StatusBoard(PageFeed):
    """The content of one service's pages. `why_stopping` returns an empty text as long as the service goes on."""

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
                    self.look()
                except Exception:
                    if not is_logged:
                        logger.exception("the content of the status page cannot be made")
                    is_logged = True
                await trio.sleep(INTERVAL)
        finally:
            self.end()

    def look(self) -> None:
        """Update from the members now."""
        heard = self._heard()
        self._series.update(heard, trio.current_time(), self._wall_clock())
        self.publish(partial(self._document, heard), partial(news, heard), news_key(heard))

    def health(self) -> Health:
        """Return the health now."""
        return self._health(self._heard())

    def snapshots(self) -> list[MemberSnapshot]:
        """Return snapshots of the members that have reported lately, for metrics.

        A silent member may have neither the state nor the partitions of its last report.
        """
        heard = [one for one in self._members.statuses() if one.age <= SILENT_AFTER]
        return [one.snapshot for one in heard if one.snapshot is not None]

    def ages(self) -> list[tuple[str, int, float]]:
        """Return the seconds since the last report, or since the start, of each running worker."""
        return [(self._group, one.worker, one.age) for one in self._members.statuses() if one.snapshot or one.age]

    def full_document(self) -> dict[str, Any]:
        """Return the document of this moment, with the plotted points."""
        heard = self._heard()
        return {**self._document(heard), **news(heard), "points": self._series.columns}

    def _heard(self) -> Sequence[WorkerStatus]:
        """Return the members now, and update their progress: partitions come to rest also between two updates."""
        heard = self._members.statuses()
        self._progress.update([one.snapshot for one in heard if one.snapshot is not None], trio.current_time())
        return heard

    def _health(self, heard: Sequence[WorkerStatus]) -> Health:
        return health(
            heard,
            self._progress,
            trio.current_time(),
            stall_after=self._stall_after,
            stopping=self._why_stopping(),
        )

    def _document(self, heard: Sequence[WorkerStatus]) -> dict[str, Any]:
        said = document(
            self._group,
            heard,
            self._health(heard),
            self._series,
            wall_clock=self._wall_clock(),
            stopping=self._why_stopping(),
        )
        return {**said, "point": self._series.last}
