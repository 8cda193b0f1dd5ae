"""Looks at a service's members each second, and has ready what is asked for: the document, health, metrics."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import trio

from sarameya.service.web.document import document, news, news_key
from sarameya.service.web.health import SILENT_AFTER, Health, health
from sarameya.service.web.looks import NOTHING, Looks
from sarameya.service.web.members import Heard, Members
from sarameya.service.web.progress import ProgressTracker
from sarameya.service.web.series import Series
from sarameya.telemetry.snapshot import MemberSnapshot

logger = logging.getLogger("sarameya")

INTERVAL = 1.0


class Shown(Protocol):
    """What pages are served over."""

    @property
    def has_looked(self) -> bool: ...

    def told(self, known: int = NOTHING) -> tuple[str, int]:
        """As `Looks.told`."""

    async def run(self) -> None:
        """Look each while, until cancelled."""

    async def next_look(self) -> bool:
        """Wait for it; False where there is none any more."""

    def health(self) -> Health: ...

    def snapshots(self) -> Sequence[MemberSnapshot]:
        """Of members that are heard, for metrics."""

    def ages(self) -> Sequence[tuple[str, int, float]]:
        """How many seconds ago which worker of which group has told of itself, or begun to run."""

    def full_document(self) -> dict[str, Any]:
        """The document, with what is plotted."""


class Board(Looks):
    """`run` looks; the rest is asked. `why_stopping` is empty as long as the service goes on."""

    def __init__(
        self,
        group: str,
        members: Members,
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
        self._series = Series()

    async def run(self) -> None:
        """Look each second, until cancelled."""
        is_told = False
        try:
            while True:
                try:
                    self.look()
                except Exception:
                    if not is_told:
                        logger.exception("what the status page says cannot be made")
                    is_told = True
                await trio.sleep(INTERVAL)
        finally:
            self.end()

    def look(self) -> None:
        """Look at the members now."""
        heard = self._heard()
        self._series.see(heard, trio.current_time(), self._wall_clock())
        self.show(partial(self._document, heard), partial(news, heard), news_key(heard))

    def health(self) -> Health:
        """As it is now."""
        return self._health(self._heard())

    def snapshots(self) -> list[MemberSnapshot]:
        """Of the members that have told of themselves lately, for metrics: who has fallen silent may have neither
        the state nor the partitions that it told of."""
        heard = [one for one in self._members.heard() if one.age <= SILENT_AFTER]
        return [one.snapshot for one in heard if one.snapshot is not None]

    def ages(self) -> list[tuple[str, int, float]]:
        """How many seconds ago each worker that runs has told of itself, or begun."""
        return [(self._group, one.worker, one.age) for one in self._members.heard() if one.snapshot or one.age]

    def full_document(self) -> dict[str, Any]:
        """As it is now, with what is plotted."""
        heard = self._heard()
        return {**self._document(heard), **news(heard), "points": self._series.columns}

    def _heard(self) -> Sequence[Heard]:
        """The members now, and seen whether they get on: between two looks, too, partitions come to rest."""
        heard = self._members.heard()
        self._progress.see([one.snapshot for one in heard if one.snapshot is not None], trio.current_time())
        return heard

    def _health(self, heard: Sequence[Heard]) -> Health:
        return health(
            heard,
            self._progress,
            trio.current_time(),
            stall_after=self._stall_after,
            stopping=self._why_stopping(),
        )

    def _document(self, heard: Sequence[Heard]) -> dict[str, Any]:
        said = document(
            self._group,
            heard,
            self._health(heard),
            self._series,
            wall_clock=self._wall_clock(),
            stopping=self._why_stopping(),
        )
        return {**said, "point": self._series.last}
