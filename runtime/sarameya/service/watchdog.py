"""The watchdog: ends the process where Python cannot end what a handler does.

Two things cannot be stopped: a task that swallows its cancellation, and code that blocks the event loop. A member
with a stuck task leaves its group at the rebalance deadline (`TaskStuck` tells); a blocked one is given up by the
group, and hears no signals any more. The kindest end for both is a quick one: the stacks of all threads go to
stderr and the process exits with 1, for a supervisor to start anew. faulthandler's timer is a C thread that needs
no interpreter lock, so that even a stuck extension module cannot hold it up.
"""

from __future__ import annotations

import faulthandler

import trio

from sarameya.observe import Event, TaskStuck

FAREWELL = 5.0
"""Seconds from a stuck task to the process's end: the member leaves its group meanwhile."""

_STDERR = 2


class Watchdog:
    """Ends the process if the loop does not turn for `timeout` seconds of real time, or a task is stuck."""

    def __init__(self, timeout: float, *, farewell: float = FAREWELL) -> None:
        self._timeout = timeout
        self._farewell = farewell
        self._stuck = trio.Event()

    def observe(self, event: Event) -> None:
        """An observer of the group."""
        if isinstance(event, TaskStuck):
            self._stuck.set()

    async def run(self) -> None:
        """Watch until cancelled, or until the end of the process."""
        try:
            while not self._stuck.is_set():
                faulthandler.dump_traceback_later(self._timeout, exit=True, file=_STDERR)
                with trio.move_on_after(self._timeout / 4):
                    await self._stuck.wait()
            faulthandler.dump_traceback_later(self._farewell, exit=True, file=_STDERR)
            await trio.sleep_forever()
        finally:
            faulthandler.cancel_dump_traceback_later()
