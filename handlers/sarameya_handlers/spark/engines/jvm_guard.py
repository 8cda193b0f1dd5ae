"""Sees to it that a JVM which is still starting, and its directory, do not outlive us.

A JVM that has started sees its standard input end, however we end, and exits. One that starts looks there some seconds
later, and nobody but us would take its directory away: it has the file with the port and the secret, and all temporary
files. So a shell waits beside it for our end: a second signal's, the watchdog's, SIGKILL's. It is there before the
directory, which it makes itself, and until that is gone, so that at no moment our end would leave it behind. Where the
shell is killed with us, the next start removes the directory (scratch.py).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sarameya_handlers.spark.engines.scratch import new_place, own
from sarameya_handlers.spark.errors import SparkStartError

# By SIGTERM a JVM takes its own temporary directories away. What ends us must not end the guard: a supervisor's SIGTERM
# goes to all that there is, as a closed terminal's SIGHUP may, and nobody reads what it says when we have ended.
_GUARD = """
trap '' INT TERM HUP PIPE
if ! said=$(mkdir -m 700 -- "$0" 2>&1); then
    printf '%s\\n' "$said"
    exit
fi
echo made
read -r jvm
read -r started && read -r _
if [ -n "$jvm" ]; then
    # One that has started sees our end by itself, and may be in the middle of a commit.
    [ -n "$started" ] && left=300 || { left=30; kill -s TERM -- "-$jvm"; }
    while [ $left -gt 0 ] && kill -s 0 -- "-$jvm"; do
        sleep 0.1
        left=$((left - 1))
    done
    [ -n "$started" ] && kill -s 0 -- "-$jvm" && exit
    [ -n "$started" ] || kill -s KILL -- "-$jvm"
fi
rm -rf -- "$0"
"""


_KILLED = "Spark's JVM is not started: the shell that would guard it was killed; start again"


class Guard:
    """The shell that waits for our end, and the directory that is ours alone until then."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path, owner: int) -> None:
        self._process = process
        self.directory = directory
        self.owner = owner
        """The descriptor by which it is ours, to be had by the JVM as well: it may outlive us for a moment."""

    def watch(self, jvm: subprocess.Popen[bytes]) -> None:
        """From here on `jvm`, with its group, ends with us. Raises SparkStartError if the guard was killed."""
        self._say(b"%d\n" % jvm.pid)

    def has_started(self) -> None:
        """From here on the JVM ends by itself if we end, and only its directory is left to the guard."""
        self._say(b"started\n")

    def _say(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
        except BrokenPipeError as error:
            raise SparkStartError(_KILLED) from error


@contextmanager
def guarding() -> Iterator[Guard]:
    """A directory for the length of the block, and what is watched in it: if we end without leaving the block, both go.

    Raises SparkStartError where no directory can be made, FileNotFoundError where there is no place for one.
    """
    directory = new_place()
    guard, owner = _started(directory), None
    assert guard.stdin is not None
    assert guard.stdout is not None
    try:
        if (said := guard.stdout.readline()) != b"made\n":
            *_, why = [b"", *(said + guard.stdout.read()).splitlines()]
            raise SparkStartError(
                f"Spark's JVM has no place to answer at: {why.decode(errors='replace')}" if why else _KILLED
            )
        owner = own(directory)
        yield Guard(guard, directory, owner)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if owner is not None:
            os.close(owner)
        guard.kill()  # before its standard input ends
        guard.wait()
        guard.stdin.close()
        guard.stdout.close()


def _started(directory: Path) -> subprocess.Popen[bytes]:
    """The guard, in a group of its own. Until it is in that, and ignores what ends us, a terminal's signal would be its
    end, too: it is born with these blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,
            bufsize=0,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
