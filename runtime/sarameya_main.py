"""The `sarameya` script. A separate module, so that it runs before the package is imported.

The import takes a third of a second. A Ctrl-C meanwhile must end the program like any other: without a traceback. From
`trio.run` on the service handles the signals itself. Only the script imports this module, since it acts at once.

A rule that is easily broken:

- In a container the first process is init and has exactly one child, which does the work. It must wait for every orphan
  of its namespace, and would take the exit codes of children from trio and from whoever started a JVM. It forks before
  the package is imported, since signals without a handler do not reach a first process. Test:
  `tests/integration/test_pid1.py::test_orphans_are_reaped_and_exit_codes_kept`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # built into Python, where `signal` imports a dozen modules

# If SIGINT is ignored (a background job of a script), it stays so until the service listens. This comes first to keep
# the time short in which a Ctrl-C shows a traceback. Python's own start precedes it: the `site` module, and whatever it
# imports in this environment.
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import os
import signal
import sys

TYPE_CHECKING = False  # importing it from `typing` would take time
if TYPE_CHECKING:
    from typing import NoReturn

_PASSED_ON = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}


def main() -> int:
    """Run this process's command line, and return its exit code."""
    if os.getpid() == 1:
        _go_on_in_a_child()
    from sarameya.service.cli import main

    code = main()
    # Only the interpreter's shutdown is left.
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    _let_go_of_output()
    return code


def _let_go_of_output() -> None:
    """Flush the output, or discard it if nobody reads it any more.

    Otherwise Python's shutdown would fail on a closed pipe or terminal, with an exit code of its own.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is None:  # it was closed when this process started
            continue
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _go_on_in_a_child() -> None:
    """Continue in a child process, while this one, the first of a container, acts as its init.

    The first process of a PID namespace ignores a signal unless it handles it. All orphans become its children, and
    have to be waited for: a process that did so beside its own children would take their exit codes away.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    child = os.fork()
    if child:
        _be_init(child)
    # A terminal's Ctrl-C must reach the child once: from the terminal, and not from its init as well.
    os.setpgid(0, 0)
    if os.isatty(0):
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.tcsetpgrp(0, os.getpgrp())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _be_init(child: int) -> NoReturn:
    """Pass signals on to `child`, wait for all processes that end, and exit with the child's code."""
    while True:
        received = signal.sigwait({*_PASSED_ON, signal.SIGCHLD})
        if received != signal.SIGCHLD:
            os.kill(child, received)
            continue
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
                os._exit(code if code >= 0 else 128 - code)
