"""The watchdog: ends the process when its event loop no longer turns, whatever holds it.

Python cannot stop a handler that blocks the loop (a computation, a blocking call). Its member has long lost
its partitions by then, and signals are no longer heard, so the kindest end is a quick one: the stacks of all
threads go to stderr and the process exits with 1, for a supervisor to start anew. faulthandler's timer is a C
thread that needs no interpreter lock, so that even a stuck extension module cannot hold it up.
"""

from __future__ import annotations

import faulthandler

import trio

_STDERR = 2


async def watch(timeout: float) -> None:
    """Run until cancelled; end the process if the loop does not turn for `timeout` seconds (real time)."""
    try:
        while True:
            faulthandler.dump_traceback_later(timeout, exit=True, file=_STDERR)
            await trio.sleep(timeout / 4)
    finally:
        faulthandler.cancel_dump_traceback_later()
