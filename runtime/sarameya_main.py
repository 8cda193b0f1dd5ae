"""The `sarameya` script. A module of its own, so that it runs before the package is imported.

Importing takes a third of a second, and a Ctrl-C meanwhile should end the program as it ends any other: without a
traceback. From `trio.run` on the service takes the signals itself.
"""

from __future__ import annotations

import signal


def main() -> int:
    """Run this process's command line and return its exit code."""
    # Where SIGINT is ignored (a background job of a script), it stays so until the service listens.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from sarameya.service.cli import main

    code = main()
    # All that is left is the interpreter's own end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code
