"""Sees to it that a JVM which is still starting, and the place where it answers, do not outlive us.

A JVM that has started sees its standard input end, however we end, and exits. One that starts looks there some seconds
later, and nobody but us would take its directory away: it has the file with the port and the secret. So a shell waits
beside it for our end: a second signal's, the watchdog's, SIGKILL's.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

# By SIGTERM a JVM takes its own temporary directories away.
_WHEN_WE_HAVE_ENDED = """
read -r _
kill -s TERM -- "-$0"
left=30
while [ $left -gt 0 ] && kill -s 0 -- "-$0"; do
    sleep 0.1
    left=$((left - 1))
done
kill -s KILL -- "-$0"
rm -rf -- "$1"
"""


@contextmanager
def guarded(process: subprocess.Popen[bytes], directory: str) -> Iterator[None]:
    """If we end inside the block without leaving it, `process`, with its group, and `directory` go as well."""
    guard = subprocess.Popen(
        ["/bin/sh", "-c", _WHEN_WE_HAVE_ENDED, str(process.pid), directory],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    try:
        yield
    finally:
        guard.kill()  # before its standard input ends
        guard.wait()
        assert guard.stdin is not None
        guard.stdin.close()
