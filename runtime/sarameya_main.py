"""The `sarameya` script. A module of its own, so that it runs before the package is imported.

Importing takes a third of a second, and a Ctrl-C meanwhile should end the program as it ends any other: without a
traceback. From `trio.run` on the service takes the signals itself. Only the script imports this, for it does its first
work at once.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # built into Python, where `signal` imports a dozen modules

# Where SIGINT is ignored (a background job of a script), it stays so until the service listens. That nothing comes
# before this makes the window small in which a Ctrl-C shows a traceback; Python's own start, which comes before, has it
# all the same: the `site` module, and what environments let it import.
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import os
import signal
import sys

TYPE_CHECKING = False  # `typing` would be imported for nothing
if TYPE_CHECKING:
    from typing import NoReturn

_PASSED_ON = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}


def main() -> int:
    """Run this process's command line and return its exit code."""
    if os.getpid() == 1:
        _go_on_in_a_child()
    from sarameya.service.cli import main

    code = main()
    # All that is left is the interpreter's own end.
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    _let_go_of_output()
    return code


def _let_go_of_output() -> None:
    """What nobody can be told any more, since a reader has had enough or a terminal is closed, is no failure: Python's
    end would make one of it, with an exit code of its own."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:  # it was closed when we began
            continue
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _go_on_in_a_child() -> None:
    """As a container's first process, be its init, and nothing else: what there is to do, a child does.

    To the first process of a PID namespace a signal is nothing unless it handles it, and all orphans become its
    children, to be waited for: whoever did that beside children of its own would take away their exit codes.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    child = os.fork()
    if child:
        _be_init(child)
    # A terminal's Ctrl-C is to reach the child once: from the terminal, not from its init as well.
    os.setpgid(0, 0)
    if os.isatty(0):
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.tcsetpgrp(0, os.getpgrp())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _be_init(child: int) -> NoReturn:
    """Pass signals on to `child`, wait for whoever ends, and end as the child does."""
    while True:
        received = signal.sigwait({*_PASSED_ON, signal.SIGCHLD})
        if received != signal.SIGCHLD:
            os.kill(child, received)
            continue
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
                os._exit(code if code >= 0 else 128 - code)
