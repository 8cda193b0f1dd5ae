"""Signals: the first SIGINT, SIGTERM or SIGHUP requests an orderly end, the second exits at once.

This module runs trio, and receives the signals. The program that waits for `Stop` decides how to end in order.
`output/error_report.py` has the exit codes.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager

import trio

from sarameya.service.output.error_report import ExitCode

logger = logging.getLogger("sarameya")

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """The request for an orderly end. Any part of the program may make it, and all running parts wait for it."""

    def __init__(self) -> None:
        self.cause = ""
        """The reason as text, once the end was requested."""
        self._requested = trio.Event()
        self._cancelled: list[trio.CancelScope] = []

    @property
    def is_requested(self) -> bool:
        """True once the end was requested."""
        return self._requested.is_set()

    def request(self, cause: str) -> None:
        """Request the end. The first cause is the one that is reported."""
        if not self.is_requested:
            logger.info("%s: stopping", cause)
            self.cause = cause
            self._requested.set()
            for scope in self._cancelled:
                scope.cancel()

    @contextmanager
    def cancelling(self, scope: trio.CancelScope) -> Iterator[None]:
        """Cancel `scope`, which may be wider than the block, if the end is requested in the block."""
        self._cancelled.append(scope)
        try:
            yield
        finally:
            self._cancelled.remove(scope)

    async def wait(self) -> None:
        """Wait for the request."""
        await self._requested.wait()


def run_program(program: Callable[[Stop], Awaitable[int]], *, before_exit: Callable[[], None] = lambda: None) -> int:
    """Run a program under trio, and return its exit code. A second signal exits at once.

    Args:
        program: The program; it ends when its `Stop` is requested.
        before_exit: Called before the exit at once. It must not wait.
    """

    def at_once(code: int) -> None:
        before_exit()
        os._exit(code)  # no `finally`, thread or full pipe can delay this exit

    async def main() -> int:
        stop = Stop()
        # The receiver opens before the nursery and closes after it, so that no KeyboardInterrupt is raised inside.
        with trio.open_signal_receiver(*_listened_to()) as received:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(obey, received, stop, at_once)
                code = await program(stop)
                nursery.cancel_scope.cancel()
        return code

    return trio.run(main)


def _listened_to() -> list[signal.Signals]:
    """Return the signals that request the end.

    SIGHUP (the terminal was closed) is included, unless the process was started to ignore it (nohup).
    """
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [*SIGNALS, *hang_up]


async def obey(received: AsyncIterator[int], stop: Stop, at_once: Callable[[int], None]) -> None:
    """Request the end at the first signal; call `at_once(exit code)` at the second."""
    signalled = False
    async for number in received:
        name = signal.Signals(number).name
        if signalled:
            logger.warning("%s: exiting at once; nothing more is written or committed", name)
            at_once(ExitCode.on_signal(number))
        signalled = True
        stop.request(name)


async def stop_with_supervisor(stop: Stop, *, fd: int = 0) -> None:
    """Request the end when the supervisor requests it through the pipe at `fd`, or has ended."""
    async with trio.lowlevel.FdStream(os.dup(fd)) as pipe:
        is_request = bool(await pipe.receive_some())
    stop.request("stop requested by the supervisor" if is_request else "the supervisor has ended")


async def stop_at_end_of_input(stop: Stop, *, fd: int = 0) -> None:
    """Request the end when the pipe at `fd` is closed: the parent program closes it, or has ended."""
    async with trio.lowlevel.FdStream(os.dup(fd)) as pipe:
        async for _ in pipe:
            pass
    stop.request("end of input")
