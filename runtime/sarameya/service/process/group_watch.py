"""Progress of a group through its logs, shown while its members run. May stop the service at the end of the logs.

The offsets come from the cluster, not from the members: these may be other processes, on other machines. Trio.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

import attrs
import trio

from sarameya.errors import ConfigError, SarameyaError
from sarameya.model import TopicPartition
from sarameya.net.admin.group_admin import GroupAdmin
from sarameya.net.log_offsets import LOG_END, LOG_START
from sarameya.protocol.subscription import Wanted, resolve
from sarameya.service.app.app_file import App
from sarameya.service.output.error_report import is_permanent
from sarameya.service.output.progress_display import Display, display
from sarameya.service.process.app_runner import Watch
from sarameya.service.process.signals import Stop

logger = logging.getLogger("sarameya")

POLL_INTERVAL = 1.0
"""Seconds between two requests for the group's offsets."""

Offsets = Mapping[TopicPartition, int]


def watch_group(title: str, *, until_end: bool = False, quiet: bool = False, as_lines: bool = False) -> Watch:
    """Return a function that shows the progress of an app's group while it runs.

    Args:
        title: The title of the progress.
        until_end: Request the end once the group has committed all messages that the logs had at the first request.
        quiet: Show nothing.
        as_lines: Print lines even on a terminal, because other processes write to it.
    """

    async def watch(app: App, stop: Stop) -> None:
        with ExitStack() as stack:
            show = partial(display, title, quiet=quiet, as_lines=as_lines)
            await GroupWatch(app, stop, lambda total: stack.enter_context(show(total)), until_end).run()

    return watch


@attrs.frozen(slots=True)
class Distance:
    """Offsets from the first position of each partition (its commit, else its log start) to its log end. Pure."""

    first: Offsets
    ends: Offsets

    @property
    def total(self) -> int:
        """The number of offsets. Some offsets may have no record."""
        return self.done(self.ends)

    def done(self, reached: Offsets) -> int:
        """Return how many of the offsets are before the offsets `reached`."""
        return sum(max(min(at, self.ends[tp]) - self.first[tp], 0) for tp, at in reached.items() if tp in self.ends)


class GroupWatch:
    """Reads a group's offsets from the cluster every `POLL_INTERVAL` seconds."""

    def __init__(self, app: App, stop: Stop, show: Callable[[int | None], Display], until_end: bool) -> None:
        self._app = app
        self._wanted: Wanted = app.topics if app.topics_pattern is None else re.compile(app.topics_pattern)
        self._stop = stop
        self._show = show
        self._until_end = until_end
        self._first: dict[TopicPartition, int] = {}
        self._ends: Offsets | None = None
        self._shown: Display | None = None

    async def run(self) -> None:
        """Watch until cancelled, or until the end is requested.

        Raises:
            SarameyaError: With `until_end`, the log ends cannot be requested.
        """
        app = self._app
        while not self._stop.is_requested:
            try:
                async with GroupAdmin(app.bootstrap_servers, app.config, lambda event: None) as admin:
                    while not self._stop.is_requested:
                        await self._update(admin)
                        await trio.sleep(POLL_INTERVAL)
            except SarameyaError as error:
                if self._until_end and is_permanent(error):
                    raise
                logger.debug("the group's progress is unknown: %s", error)
                await trio.sleep(POLL_INTERVAL)

    async def _update(self, admin: GroupAdmin) -> None:
        committed = {tp: commit.offset for tp, commit in (await admin.committed(self._app.group)).items()}
        ends = self._ends
        if ends is None and (ends := await self._log_ends(admin, committed)) is None:
            return  # a topic does not exist yet, or a broker did not respond
        if self._until_end and not ends:
            problem = "matches no topic that exists and that this client may describe, so there is no end to reach"
            raise ConfigError("topics_pattern", self._app.topics_pattern, problem)
        distance = Distance(self._first, ends)
        if self._until_end:
            self._ends = ends
        if self._shown is None:
            self._shown = self._show(distance.total if self._until_end else None)
        done, total = distance.done(committed), distance.total
        self._shown.update(done, "" if self._until_end else f"{total - done:,} to go")
        if self._until_end and done >= total:
            self._stop.request("the group has committed all messages")

    async def _log_ends(self, admin: GroupAdmin, committed: Offsets) -> Offsets | None:
        """Return the log ends of the partitions that the group reads. None if some are unknown."""
        if isinstance(self._wanted, tuple):
            metadata = await admin.metadata(self._wanted)
            if metadata.missing(self._wanted):
                return None
        else:
            metadata = await admin.metadata_of_all()
        counts = metadata.partition_counts(resolve(self._wanted, metadata))
        partitions = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
        new = [tp for tp in partitions if tp not in self._first]
        starts = await admin.log_offsets([tp for tp in new if tp not in committed], LOG_START)
        ends = await admin.log_offsets(partitions, LOG_END, self._app.config.isolation_level)
        if starts.missing or ends.missing:
            return None
        self._first |= {tp: committed.get(tp, starts.found.get(tp, 0)) for tp in new}
        return ends.found
