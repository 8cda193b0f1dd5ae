"""Guard: makes sure that a JVM that is still starting, and its directory, do not outlive this process.

A JVM that has started sees its standard input close when we end, however we end, and exits. A JVM that is starting
looks there only seconds later, and without us nobody removes its directory, which has the file with port and secret,
and all temporary files. So a shell waits beside it for our end: by a second signal, the watchdog, SIGKILL. It starts
before the directory, which it creates itself, and ends after it is gone, so that there is no gap. If the shell is
killed together with us, the next start removes the directory (scratch.py).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sarameya_handlers.spark.engines.jvm.scratch import new_place, own
from sarameya_handlers.spark.errors import SparkStartError

# On SIGTERM, a JVM removes its own temporary directories. Signals that end us must not end the guard: a supervisor's
# SIGTERM reaches all our processes, and so may a closed terminal's SIGHUP. Nor must SIGPIPE: nobody reads the guard's
# output after our end.
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


class JvmGuard:
    """The shell that waits for our end, and the directory that belongs to us until then."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path, owner: int) -> None:
        self._process = process
        self.directory = directory
        self.owner = owner
        """Descriptor that marks our ownership. The JVM inherits it, since it may outlive us for a moment."""

    def watch(self, jvm: subprocess.Popen[bytes]) -> None:
        """End the process group of `jvm` when we end, from now on. Raises SparkStartError if the guard was killed."""
        self._say(b"%d\n" % jvm.pid)

    def has_started(self) -> None:
        """Leave only the directory to the guard from now on: the JVM ends by itself if we end."""
        self._say(b"started\n")

    def _say(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
        except BrokenPipeError as error:
            raise SparkStartError(_KILLED) from error


@contextmanager
def guarded_directory() -> Iterator[JvmGuard]:
    """Provide a guarded directory for the length of a block. If we end within the block, directory and JVM are removed.

    Raises:
        SparkStartError: The directory cannot be created.
        FileNotFoundError: There is no directory for temporary files.
    """
    directory = new_place()
    guard, owner = _started(directory), None
    assert guard.stdin is not None
    assert guard.stdout is not None
    try:
        if (output := guard.stdout.readline()) != b"made\n":
            *_, why = [b"", *(output + guard.stdout.read()).splitlines()]
            raise SparkStartError(
                f"Spark's JVM has no place to answer at: {why.decode(errors='replace')}" if why else _KILLED
            )
        owner = own(directory)
        yield JvmGuard(guard, directory, owner)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if owner is not None:
            os.close(owner)
        guard.kill()  # before its standard input closes
        guard.wait()
        guard.stdin.close()
        guard.stdout.close()


def _started(directory: Path) -> subprocess.Popen[bytes]:
    """Start the guard in its own process group.

    It starts with these signals blocked: until it is in its group and ignores them, a terminal's signal would end it,
    too.
    """
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
