"""SIGINT, SIGTERM, SIGHUP: the first asks for an orderly end, the second exits at once (`failures.py` has the codes).

Owns the receiver and the trio run around it; what an orderly end is, the program decides that waits for `Stop`.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager

import trio

from sarameya.service.failures import ExitCode

logger = logging.getLogger("sarameya")

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """The request to end in order: asked for once or more, waited for by whoever runs."""

    def __init__(self) -> None:
        self.cause = ""
        """Why, in words, once it was asked for."""
        self._asked = trio.Event()
        self._cancelled: list[trio.CancelScope] = []

    @property
    def asked(self) -> bool:
        """Whether somebody has."""
        return self._asked.is_set()

    def ask(self, cause: str) -> None:
        """Ask for it; the first cause is the one that is told."""
        if not self.asked:
            logger.info("%s: stopping", cause)
            self.cause = cause
            self._asked.set()
            for scope in self._cancelled:
                scope.cancel()

    @contextmanager
    def cancelling(self, scope: trio.CancelScope) -> Iterator[None]:
        """In the block, asking for the end cancels `scope`, which may be a wider one."""
        self._cancelled.append(scope)
        try:
            yield
        finally:
            self._cancelled.remove(scope)

    async def wait(self) -> None:
        """Until it is asked for."""
        await self._asked.wait()


def run(program: Callable[[Stop], Awaitable[int]], *, before_exit: Callable[[], None] = lambda: None) -> int:
    """Run `program` under trio; a second signal calls `before_exit` (it must not wait) and exits at once."""

    def at_once(code: int) -> None:
        before_exit()
        os._exit(code)  # no `finally`, no thread, no full pipe can hold this up

    async def main() -> int:
        stop = Stop()
        # The receiver stands before the nursery and beyond it, so that no KeyboardInterrupt can be raised inside.
        with trio.open_signal_receiver(*_listened_to()) as received:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(obey, received, stop, at_once)
                code = await program(stop)
                nursery.cancel_scope.cancel()
        return code

    return trio.run(main)


def _listened_to() -> list[signal.Signals]:
    """A terminal that is closed asks for the same end (SIGHUP), unless we were started to outlive it (nohup)."""
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [*SIGNALS, *hang_up]


async def obey(received: AsyncIterator[int], stop: Stop, at_once: Callable[[int], None]) -> None:
    """Ask `stop` for the end at the first signal; call `at_once(exit code)` at the second."""
    signalled = False
    async for number in received:
        name = signal.Signals(number).name
        if signalled:
            logger.warning("%s: exiting at once, nothing more is landed or committed", name)
            at_once(ExitCode.on_signal(number))
        signalled = True
        stop.ask(name)


async def stop_with_supervisor(stop: Stop, *, fd: int = 0) -> None:
    """Ask for the end when the supervisor asks for it through the pipe at `fd`, or has ended."""
    async with trio.lowlevel.FdStream(os.dup(fd)) as pipe:
        asked = await pipe.receive_some()
    stop.ask("asked to stop by the supervisor" if asked else "the supervisor has ended")


async def stop_at_end_of_input(stop: Stop, *, fd: int = 0) -> None:
    """Ask for the end when the pipe at `fd` is closed: by the program that started this one, or by its death."""
    async with trio.lowlevel.FdStream(os.dup(fd)) as pipe:
        async for _ in pipe:
            pass
    stop.ask("end of input")
