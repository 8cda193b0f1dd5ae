"""The service under demonstration: `sarameya run` with two workers, as a process of its own."""

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

PATIENCE = 30.0
"""Seconds the service may take to drain before it is killed."""

_WORKER_STARTED = re.compile(r"worker (\d+) started \(pid (\d+)\)")


class Service:
    """A running `sarameya run --workers N`."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._log_ended = trio.Event()
        self._tail: deque[str] = deque(maxlen=20)
        self.workers: dict[int, int] = {}
        """Worker number -> process id, as the service's log has told them."""

    async def read_log(self) -> None:
        """Follow the service's log until it ends."""
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

    async def must_run(self) -> None:
        """Runs until cancelled. Raises DemoError when the service ends: nobody has asked it to."""
        await self._process.wait()
        raise await self._failure()

    async def stop(self) -> None:
        """SIGTERM: drain, land, commit, leave. Raises DemoError for an exit code that is not 0."""
        self._process.send_signal(signal.SIGTERM)
        with trio.move_on_after(PATIENCE):
            await self._process.wait()
        if self._process.returncode != 0:
            raise await self._failure()

    async def end(self) -> None:
        """End it by whatever it takes, if it still runs."""
        if self._process.returncode is None:
            self._process.terminate()
        with trio.move_on_after(PATIENCE):
            await self._process.wait()
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _failure(self) -> DemoError:
        """What to raise: how it ended, and the last lines of its log."""
        code = self._process.returncode
        ending = "did not end in time" if code is None else f"ended with exit code {code}"
        with trio.move_on_after(1):  # a grandchild may still hold the log open
            await self._log_ended.wait()
        return DemoError("\n".join([f"the service {ending}; the end of its log:", *self._tail]))


@asynccontextmanager
async def running(app_file: Path, workers: int) -> AsyncIterator[Service]:
    """The service on `app_file` for the length of the block.

    Its standard input is a pipe that ends with us, so that it ends in order even where this process is killed.
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
