"""Reports of workers to their supervisor: a line of JSON each second, through a pipe that was opened for it.

A pipe needs no file, port or name, and closes when either process ends.
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
    """Write the report of this worker's member each second, until cancelled or until the supervisor has ended."""
    os.set_inheritable(fd, False)  # processes that a handler starts must not keep it open
    last_number = 0
    try:
        async with trio.lowlevel.FdStream(fd) as pipe:
            while True:
                try:
                    (status,) = local_members.statuses()
                    new = tuple(event for event in status.happenings if event.number > last_number)
                    last_number = max((event.number for event in new), default=last_number)
                    line = WorkerReport(status.snapshot, status.failure, new, status.restart).to_json() + "\n"
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
    restart: PendingRestart | None = None
    history: EventHistory = attrs.field(factory=EventHistory)


class WorkerReports:
    """Reads the reports of a supervisor's workers, and keeps the last state of each."""

    def __init__(self, workers: Sequence[int], wall_clock: Callable[[], float] = time.time) -> None:
        self._workers = {worker: _Worker() for worker in workers}
        self._wall_clock = wall_clock
        self._unreadable: set[int] = set()

    def record_start(self, worker: int, pid: int) -> None:
        """Record the start of a worker's process."""
        found = self._workers[worker]
        found.pid, found.last, found.failure, found.at = pid, None, "", trio.current_time()
        found.restart = None

    def record_failure(self, worker: int, how: str) -> None:
        """Record the failure of a worker's process. Its last report is no longer true."""
        found = self._workers[worker]
        found.last, found.failure, found.at = None, how, None
        # The number is 0, since the worker itself numbers its events; this one is the last of them in any case.
        text = f"worker {worker} {how}"
        found.history.add(RecentEvent(number=0, at=self._wall_clock(), kind="Failure", level="error", text=text))

    def has_reported(self, worker: int) -> bool:
        """Return whether the process has sent a report. Until then it imports, and does not handle signals."""
        return self._workers[worker].last is not None

    def record_restart(self, worker: int, delay: float, failures: int) -> None:
        """Record a restart in `delay` seconds, after `failures` failures in a row."""
        self._workers[worker].restart = PendingRestart(trio.current_time() + delay, failures)

    def record_shared_failure(self, error: Exception, delay: float, failures: int) -> None:
        """Record that no worker has started, since the start of their shared resource failed.

        The resource is started again in `delay` seconds.
        """
        for worker in self._workers:
            self.record_failure(worker, f"waits for the workers' shared resource: {error_summary(error)}")
            self.record_restart(worker, delay, failures)

    async def listen(self, worker: int, fd: int) -> None:
        """Read a worker's reports until its pipe ends. Takes ownership of `fd`."""
        rest = b""
        async with trio.lowlevel.FdStream(fd) as pipe:
            while chunk := await pipe.receive_some(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._read_line(worker, line)

    def _read_line(self, worker: int, line: bytes) -> None:
        """Record the report in a line.

        A report of an unknown format is skipped: the package may have been upgraded while the supervisor runs.
        """
        try:
            self._record(worker, WorkerReport.from_json(line.decode()))
        except Exception as error:  # noqa: BLE001 - cattrs raises many classes
            if worker not in self._unreadable:
                logger.error("a report of worker %d cannot be read: %s", worker, error_line(error))
            self._unreadable.add(worker)

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
                restart=_restart(found, now),
                happenings=tuple(found.history),
            )
            for worker, found in self._workers.items()
        ]

    def _record(self, worker: int, report: WorkerReport) -> None:
        found = self._workers[worker]
        found.last, found.at = report, trio.current_time()
        for event in report.happenings:
            found.history.add(event)


def _restart(worker: _Worker, now: float) -> Restart | None:
    """Return the planned restart of the process, or of the member in it."""
    if worker.restart:
        return worker.restart.remaining(now)
    return None if worker.last is None else worker.last.restart
