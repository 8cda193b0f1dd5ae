"""Reports of workers to their supervisor: a line of JSON each second, through a pipe that was opened for it.

No file, port or name is needed, and the pipe ends with either process.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence

import attrs
import trio
from cattrs.preconf.json import make_converter

from sarameya.model import TopicPartition
from sarameya.service.monitor.local_members import LocalMembers
from sarameya.service.monitor.members import PendingRestart, Restart, WorkerStatus
from sarameya.service.monitor.recent_events import EventHistory, RecentEvent, error_line, error_summary
from sarameya.telemetry.snapshot import MemberSnapshot

INTERVAL = 1.0
"""Seconds between two lines."""
_CHUNK = 65536

logger = logging.getLogger("sarameya")

_converter = make_converter()
_converter.register_structure_hook(TopicPartition, lambda value, _: TopicPartition(*value))


@attrs.frozen(slots=True)
class WorkerReport:
    """A report: the worker's state now, and its events since the last report."""

    snapshot: MemberSnapshot | None
    failure: str
    happenings: tuple[RecentEvent, ...]
    restart: Restart | None = None

    def to_json(self) -> str:
        return _converter.dumps(self)

    @classmethod
    def from_json(cls, text: str) -> WorkerReport:
        return _converter.loads(text, cls)


async def send_reports(local_members: LocalMembers, fd: int) -> None:
    """Write the report of this worker's member each second, until cancelled or until nobody reads any more."""
    os.set_inheritable(fd, False)  # what handlers start must not keep it open
    last_number = 0
    try:
        async with trio.lowlevel.FdStream(fd) as pipe:
            while True:
                try:
                    (heard,) = local_members.statuses()
                    new = tuple(one for one in heard.happenings if one.number > last_number)
                    last_number = max((one.number for one in new), default=last_number)
                    line = WorkerReport(heard.snapshot, heard.failure, new, heard.restart).to_json() + "\n"
                except Exception:
                    logger.exception("the report of this worker cannot be made")
                    return
                await pipe.send_all(line.encode())
                await trio.sleep(INTERVAL)
    except trio.BrokenResourceError:
        pass  # the supervisor has ended; the end of standard input then stops this worker


@attrs.define(slots=True)
class _Worker:
    pid: int = 0
    last: WorkerReport | None = None
    at: float | None = None
    """The time of the last report, or of the process's start. None if no process runs."""
    failure: str = ""
    due: PendingRestart | None = None
    kept: EventHistory = attrs.field(factory=EventHistory)


class WorkerReports:
    """Reads the reports of a supervisor's workers, and keeps the last state of each."""

    def __init__(self, workers: Sequence[int], wall_clock: Callable[[], float] = time.time) -> None:
        self._workers = {worker: _Worker() for worker in workers}
        self._wall_clock = wall_clock
        self._misheard: set[int] = set()

    def began(self, worker: int, pid: int) -> None:
        """Record the start of a worker's process."""
        found = self._workers[worker]
        found.pid, found.last, found.failure, found.at = pid, None, "", trio.current_time()
        found.due = None

    def ended(self, worker: int, how: str) -> None:
        """Record the failure of a worker's process. Its last report is no longer true."""
        found = self._workers[worker]
        found.last, found.failure, found.at = None, how, None
        # Of numbers it had its own, and this is behind all of them.
        text = f"worker {worker} {how}"
        found.kept.add(RecentEvent(number=0, at=self._wall_clock(), kind="Failure", level="error", text=text))

    def has_reported(self, worker: int) -> bool:
        """Return whether the process has sent a report. Before that it imports, and does not handle signals."""
        return self._workers[worker].last is not None

    def restarts(self, worker: int, delay: float, failures: int) -> None:
        """Record a restart in `delay` seconds, after so many failures in a row."""
        self._workers[worker].due = PendingRestart(trio.current_time() + delay, failures)

    def shared_start_failed(self, error: Exception, delay: float, failures: int) -> None:
        """Record that no worker has started, since their shared resource failed.

        Its next start is in `delay` seconds.
        """
        for worker in self._workers:
            self.ended(worker, f"waits for the workers' shared resource: {error_summary(error)}")
            self.restarts(worker, delay, failures)

    async def listen(self, worker: int, fd: int) -> None:
        """Read a worker's reports until its pipe ends. Takes ownership of `fd`."""
        rest = b""
        async with trio.lowlevel.FdStream(fd) as pipe:
            while chunk := await pipe.receive_some(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._hear(worker, line)

    def _hear(self, worker: int, line: bytes) -> None:
        """Read one line.

        An unknown format is skipped: the package may have been upgraded beneath a running supervisor.
        """
        try:
            self._heard(worker, WorkerReport.from_json(line.decode()))
        except Exception as error:  # noqa: BLE001 - whatever cattrs makes of it
            if worker not in self._misheard:
                logger.error("a report of worker %d cannot be read: %s", worker, error_line(error))
            self._misheard.add(worker)

    def statuses(self) -> list[WorkerStatus]:
        """Return the last state of each worker."""
        now = trio.current_time()
        return [
            WorkerStatus(
                worker=worker,
                snapshot=None if found.last is None else found.last.snapshot,
                age=0.0 if found.at is None else now - found.at,
                pid=found.pid,
                failure=found.failure or (found.last.failure if found.last is not None else ""),
                restart=found.due.seen(now) if found.due else (found.last.restart if found.last is not None else None),
                happenings=tuple(found.kept),
            )
            for worker, found in self._workers.items()
        ]

    def _heard(self, worker: int, line: WorkerReport) -> None:
        found = self._workers[worker]
        found.last, found.at = line, trio.current_time()
        for happening in line.happenings:
            found.kept.add(happening)
