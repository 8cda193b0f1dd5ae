"""The watchdog: ends the process if Python cannot end a handler's work.

Two things cannot be stopped: a task that swallows its cancellation, and code that blocks the event loop. A member with
a stuck task leaves its group at the rebalance deadline (event `TaskStuck`). A blocked member is removed by the group,
and receives no more signals. The remedy for both is a quick end: the stacks of all threads go to stderr and the process
exits with 1, for a supervisor to restart. faulthandler's timer is a C thread that needs no interpreter lock, so that
even a stuck extension module cannot delay it.
"""

from __future__ import annotations

import faulthandler

import trio

from sarameya.observe import Event, TaskStuck

LEAVE_TIME = 5.0
"""Seconds from a stuck task to the end of the process. The member leaves its group meanwhile."""

_STDERR = 2


class Watchdog:
    """Ends the process if the event loop is blocked for `timeout` seconds of real time, or a task is stuck."""

    def __init__(self, timeout: float, *, leave_time: float = LEAVE_TIME) -> None:
        self._timeout = timeout
        self._leave_time = leave_time
        self._stuck = trio.Event()

    def observe(self, event: Event) -> None:
        """Note the event of a stuck task."""
        if isinstance(event, TaskStuck):
            self._stuck.set()

    async def run(self) -> None:
        """Watch until cancelled, or until the end of the process."""
        try:
            while not self._stuck.is_set():
                faulthandler.dump_traceback_later(self._timeout, exit=True, file=_STDERR)
                with trio.move_on_after(self._timeout / 4):
                    await self._stuck.wait()
            faulthandler.dump_traceback_later(self._leave_time, exit=True, file=_STDERR)
            await trio.sleep_forever()
        finally:
            faulthandler.cancel_dump_traceback_later()
