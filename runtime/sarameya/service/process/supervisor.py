"""Supervisor: runs N members as N processes of one app file, and restarts them.

Closing the pipe that is a worker's standard input requests its end. That works before the worker has its signal
handlers, and also if this process is killed: no worker keeps running. A worker that has not reported yet is
still importing, which may take long. It has no work to drain, so it gets SIGTERM as well. Workers have process groups
of their own, so that Ctrl-C on a terminal reaches this process only.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import trio

from sarameya.service.app.app_file import ServiceSection
from sarameya.service.monitor.worker_reports import WorkerReports
from sarameya.service.output.error_report import ExitCode
from sarameya.service.process.restarts import Restarts
from sarameya.service.process.signals import Stop

logger = logging.getLogger("sarameya")

_REQUEST = b"stop\n"
"""The line that requests a worker's end. The end of its input alone requests the same, if this process is killed."""
_LAST_REPORTS_SECONDS = 1.0
"""Limit for reading the reports that are in the pipe when a worker ends. A child of it may hold the pipe open."""


class Supervisor:
    """Keeps one process running for each command, until the end is requested or a worker fails for good."""

    def __init__(self, commands: Sequence[Sequence[str]], policy: ServiceSection) -> None:
        """Take the commands of the workers.

        Args:
            commands: A command for each worker. `--report-fd FD` is appended: the pipe for the worker's reports.
            policy: What to do when a worker fails.
        """
        self._commands = commands
        self._policy = policy
        self.reports = WorkerReports(range(1, len(commands) + 1))
        """The workers' reports of their members."""
        self._environment: Mapping[str, str] = {}
        self._running: dict[int, trio.Process] = {}
        self._codes: list[int] = []
        self._terminated: set[int] = set()

    async def run(self, stop: Stop, environment: Mapping[str, str] | None = None) -> ExitCode:
        """Start the workers, wait until all have ended, and return the worst of their exit codes.

        Args:
            stop: The request for the end.
            environment: Variables for the workers, beside this process's own.
        """
        self._environment = environment or {}
        async with trio.open_nursery() as nursery:
            for number, command in enumerate(self._commands, start=1):
                nursery.start_soon(self._keep, number, command, stop)
        if ExitCode.CONFIGURATION in self._codes:
            return ExitCode.CONFIGURATION
        return ExitCode.FAILURE if any(self._codes) else ExitCode.OK

    def kill_nowait(self) -> None:
        """Send SIGKILL to every worker. Processes that they started end with them, as their pipes close."""
        for process in self._running.values():
            process.kill()

    async def _keep(self, number: int, command: Sequence[str], stop: Stop) -> None:
        restarts = Restarts(self._policy)
        while not stop.is_requested:
            started = trio.current_time()
            try:
                code = await self._run_once(number, command, stop)
                how = _ending(code)
            except OSError as error:  # no memory or file descriptor for another process: the others continue
                code, how = ExitCode.FAILURE, f"could not be started: {error}"
            if stop.is_requested or code == ExitCode.OK:
                self._codes.append(code)
                return
            logger.error("worker %d %s", number, how, extra=_log_fields(number))
            self.reports.record_failure(number, how)
            if self._policy.on_failure == "stop" or code == ExitCode.CONFIGURATION:
                self._codes.append(code)
                stop.request(f"worker {number} failed")
                return
            delay = restarts.delay_after(trio.current_time() - started)
            self.reports.record_restart(number, delay, restarts.failures_in_a_row)
            logger.warning("restarting worker %d in %.1f s", number, delay, extra=_log_fields(number))
            with trio.move_on_after(delay):
                await stop.wait()

    async def _run_once(self, number: int, command: Sequence[str], stop: Stop) -> int:
        environment = {**os.environ, **self._environment}
        read_fd, write_fd = os.pipe()
        try:
            process = await trio.lowlevel.open_process(
                [*command, "--report-fd", str(write_fd)],
                env=environment,
                stdin=subprocess.PIPE,
                process_group=0,
                pass_fds=(write_fd,),
            )
        except BaseException:
            os.close(read_fd)
            raise
        finally:
            os.close(write_fd)
        self._running[number] = process
        logger.info("worker %d started (pid %d)", number, process.pid, extra=_log_fields(number))
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._request_end, number, process, stop)
                self.reports.record_start(number, process.pid)
                read_all = trio.Event()
                nursery.start_soon(self._read_reports, number, read_fd, read_all)
                code = await process.wait()
                with trio.move_on_after(_LAST_REPORTS_SECONDS):
                    await read_all.wait()
                nursery.cancel_scope.cancel()
        finally:
            if process.returncode is None:
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
            del self._running[number]
        # Our SIGTERM has ended it before its first report: there was nothing to drain.
        return ExitCode.OK if number in self._terminated and code == -signal.SIGTERM else code

    async def _read_reports(self, number: int, fd: int, read_all: trio.Event) -> None:
        """Read the worker's reports, also those that are still in the pipe when it ends."""
        await self.reports.listen(number, fd)
        read_all.set()

    async def _request_end(self, number: int, process: trio.Process, stop: Stop) -> None:
        await stop.wait()
        if not self.reports.has_reported(number):
            # If the worker handles signals by now, it takes SIGTERM as a request for an orderly end, too.
            self._terminated.add(number)
            process.terminate()
        assert process.stdin is not None
        with suppress(trio.BrokenResourceError):  # the worker has ended already
            await process.stdin.send_all(_REQUEST)
        await process.stdin.aclose()


def _log_fields(number: int) -> dict[str, Any]:
    """Return the worker's number as a field of the log line."""
    return {"fields": {"worker": number}}


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"was killed by signal {-code}"
