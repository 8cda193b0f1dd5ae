"""N members as N processes of one app file, started and watched by this one.

A worker is asked to end by closing the pipe that is its standard input. That says it once, also to a worker
that has not yet set up its signal handlers, and says it for us if this process is killed: no worker is ever
left behind. One that has not told of itself yet still imports, which may take long, and has nothing to end in order: it
gets SIGTERM as well. Workers stand in process groups of their own, so that Ctrl-C on a terminal reaches this process
only.
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

from sarameya.service.app_file import ServiceSection
from sarameya.service.failures import ExitCode
from sarameya.service.restarts import Restarts
from sarameya.service.signals import Stop
from sarameya.service.web.telling import Ear

logger = logging.getLogger("sarameya")

_REQUEST = b"stop\n"
"""Tells a worker's log why its input ends; the end itself asks as well, where this process is killed."""


class Supervisor:
    """Keeps one process running for each command, until asked to stop or until one fails for good."""

    def __init__(self, commands: Sequence[Sequence[str]], policy: ServiceSection) -> None:
        """Each command is given `--tell FD` besides: a pipe through which it is heard."""
        self._commands = commands
        self._policy = policy
        self.ear = Ear(range(1, len(commands) + 1))
        """Who hears what they tell of themselves."""
        self._environment: Mapping[str, str] = {}
        self._running: dict[int, trio.Process] = {}
        self._codes: list[int] = []
        self._cut_short: set[int] = set()

    async def run(self, stop: Stop, environment: Mapping[str, str] | None = None) -> ExitCode:
        """Start the workers and return when all have ended: the worst of their exit codes.

        `environment` is theirs, beside ours.
        """
        self._environment = environment or {}
        async with trio.open_nursery() as nursery:
            for number, command in enumerate(self._commands, start=1):
                nursery.start_soon(self._keep, number, command, stop)
        if ExitCode.CONFIGURATION in self._codes:
            return ExitCode.CONFIGURATION
        return ExitCode.FAILURE if any(self._codes) else ExitCode.OK

    def kill_nowait(self) -> None:
        """SIGKILL to every worker; what they started ends with them, as its own pipes close."""
        for process in self._running.values():
            process.kill()

    async def _keep(self, number: int, command: Sequence[str], stop: Stop) -> None:
        restarts = Restarts(self._policy)
        while not stop.asked:
            started = trio.current_time()
            try:
                code = await self._run_once(number, command, stop)
                how = _ending(code)
            except OSError as error:  # no memory, or no descriptor, for another process: the others go on
                code, how = ExitCode.FAILURE, f"could not be started: {error}"
            if stop.asked or code == ExitCode.OK:
                self._codes.append(code)
                return
            logger.error("worker %d %s", number, how, extra=_about(number))
            self.ear.ended(number, how)
            if self._policy.on_failure == "stop" or code == ExitCode.CONFIGURATION:
                self._codes.append(code)
                stop.ask(f"worker {number} failed")
                return
            delay = restarts.delay_after(trio.current_time() - started)
            self.ear.restarts(number, delay, restarts.failures_in_a_row)
            logger.warning("restarting worker %d in %.1f s", number, delay, extra=_about(number))
            with trio.move_on_after(delay):
                await stop.wait()

    async def _run_once(self, number: int, command: Sequence[str], stop: Stop) -> int:
        environment = {**os.environ, **self._environment}
        heard, told = os.pipe()
        try:
            process = await trio.lowlevel.open_process(
                [*command, "--tell", str(told)],
                env=environment,
                stdin=subprocess.PIPE,
                process_group=0,
                pass_fds=(told,),
            )
        except BaseException:
            os.close(heard)
            raise
        finally:
            os.close(told)
        self._running[number] = process
        logger.info("worker %d started (pid %d)", number, process.pid, extra=_about(number))
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._ask_when_asked, number, process, stop)
                self.ear.began(number, process.pid)
                nursery.start_soon(self.ear.listen, number, heard)
                code = await process.wait()
                nursery.cancel_scope.cancel()
        finally:
            if process.returncode is None:
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
            del self._running[number]
        # It has died of our SIGTERM: it had begun nothing.
        return ExitCode.OK if number in self._cut_short and code == -signal.SIGTERM else code

    async def _ask_when_asked(self, number: int, process: trio.Process, stop: Stop) -> None:
        await stop.wait()
        if not self.ear.has_told(number):
            # Where it has come to listen in this very moment, it takes that for the same request.
            self._cut_short.add(number)
            process.terminate()
        assert process.stdin is not None
        with suppress(trio.BrokenResourceError):  # it has ended already
            await process.stdin.send_all(_REQUEST)
        await process.stdin.aclose()


def _about(number: int) -> dict[str, Any]:
    """What a structured log has of a line besides its words."""
    return {"fields": {"worker": number}}


def _ending(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
