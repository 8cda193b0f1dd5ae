"""The service of the demo: a process of `sarameya run` with two workers."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from examples.flights.errors import DemoError

DRAIN_TIMEOUT = 30.0
"""Seconds in which the service may drain before it is killed."""

_WORKER_STARTED = re.compile(r"worker (\d+) started \(pid (\d+)\)")


class Service:
    """A running `sarameya run --workers N`."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._log_ended = trio.Event()
        self._tail: deque[str] = deque(maxlen=20)
        self.workers: dict[int, int] = {}
        """Process id of each worker by its number, from the service's log."""

    async def read_log(self) -> None:
        """Read the service's log until its end."""
        assert self._process.stderr is not None
        rest = b""
        async for chunk in self._process.stderr:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._read(line.decode(errors="replace"))
        self._log_ended.set()

    def _read(self, line: str) -> None:
        self._tail.append(line)
        if found := _WORKER_STARTED.search(line):
            self.workers[int(found[1])] = int(found[2])

    async def fail_if_ended(self) -> None:
        """Wait until cancelled.

        Raises:
            DemoError: The service has ended by itself.
        """
        await self._process.wait()
        raise await self._failure()

    async def stop(self) -> None:
        """Send SIGTERM, and wait until the service has drained, landed, committed and left.

        Raises:
            DemoError: The exit code is not 0, or the service did not end in time.
        """
        self._process.send_signal(signal.SIGTERM)
        with trio.move_on_after(DRAIN_TIMEOUT):
            await self._process.wait()
        if self._process.returncode != 0:
            raise await self._failure()

    async def end(self) -> None:
        """End the service if it still runs: SIGTERM, then SIGKILL."""
        if self._process.returncode is None:
            self._process.terminate()
        with trio.move_on_after(DRAIN_TIMEOUT):
            await self._process.wait()
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _failure(self) -> DemoError:
        """Return an error with the exit code and the last lines of the log."""
        code = self._process.returncode
        ending = "did not end in time" if code is None else f"ended with exit code {code}"
        with trio.move_on_after(1):  # a grandchild may still hold the log open
            await self._log_ended.wait()
        return DemoError("\n".join([f"the service {ending}; the end of its log:", *self._tail]))


@asynccontextmanager
async def running(app_file: Path, workers: int) -> AsyncIterator[Service]:
    """Run the service with an app file, for the length of a block.

    Its standard input is a pipe, which closes when this process ends. So the service ends in order even if this process
    is killed.
    """
    command = [sys.executable, "-m", "sarameya.service", "run", str(app_file)]
    command += ["--workers", str(workers), "--until-eof", "--log-format", "text"]
    process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0)
    service = Service(process)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.read_log)
        try:
            yield service
        finally:
            with trio.CancelScope(shield=True):
                await service.end()
            nursery.cancel_scope.cancel()
