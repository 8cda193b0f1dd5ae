"""Guard: a shell that ends a starting JVM and removes its directory when this process ends.

However this process ends, the standard input of its JVM closes, and a JVM that has started exits. A JVM that is
starting reads its standard input only seconds later. Nor does it remove its directory, which has all temporary files,
and the file with port and secret. So a shell waits for the end of this process, even by a second signal, the watchdog
or SIGKILL. The shell creates the directory, and ends after the directory is removed, so that there is no gap. If the
shell is killed together with this process, the next start removes the directory (scratch.py).
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

# On SIGTERM, a JVM removes its own temporary directories. Signals that end this process must not end the guard: a
# supervisor's SIGTERM reaches all processes of a service, and so may a closed terminal's SIGHUP. Nor must SIGPIPE:
# nobody reads the guard's output after the end of this process.
_GUARD = """
trap '' INT TERM HUP PIPE
if ! error=$(mkdir -m 700 -- "$0" 2>&1); then
    printf '%s\\n' "$error"
    exit
fi
echo made
read -r jvm
read -r started && read -r _
if [ -n "$jvm" ]; then
    # A JVM that has started exits by itself, and may be in the middle of a commit.
    [ -n "$started" ] && tenths=300 || { tenths=30; kill -s TERM -- "-$jvm"; }
    while [ $tenths -gt 0 ] && kill -s 0 -- "-$jvm"; do
        sleep 0.1
        tenths=$((tenths - 1))
    done
    [ -n "$started" ] && kill -s 0 -- "-$jvm" && exit
    [ -n "$started" ] || kill -s KILL -- "-$jvm"
fi
rm -rf -- "$0"
"""


_KILLED = "Spark's JVM is not started: the shell that would guard it was killed; start again"


class JvmGuard:
    """The shell that waits for the end of this process, and the directory that it removes then."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path, owner: int) -> None:
        self._process = process
        self.directory = directory
        self.owner = owner
        """Descriptor that marks the directory as owned. The JVM inherits it: it may outlive this process briefly."""

    def watch(self, jvm: subprocess.Popen[bytes]) -> None:
        """Let the guard end the process group of `jvm`, too. Raises SparkStartError if the guard was killed."""
        self._send(b"%d\n" % jvm.pid)

    def unwatch(self) -> None:
        """Let the guard only remove the directory: the JVM has started, and exits by itself when this process ends."""
        self._send(b"started\n")

    def _send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
        except BrokenPipeError as error:
            raise SparkStartError(_KILLED) from error


@contextmanager
def guarded_directory() -> Iterator[JvmGuard]:
    """Provide a guarded directory for the length of a block. If this process ends within it, the guard cleans up.

    Raises:
        SparkStartError: The directory cannot be created.
        FileNotFoundError: There is no directory for temporary files.
    """
    directory = new_place()
    guard, owner = _start_guard(directory), None
    assert guard.stdin is not None
    assert guard.stdout is not None
    try:
        if (output := guard.stdout.readline()) != b"made\n":
            *_, why = [b"", *(output + guard.stdout.read()).splitlines()]
            raise SparkStartError(
                f"the directory for Spark's JVM cannot be created: {why.decode(errors='replace')}" if why else _KILLED
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


def _start_guard(directory: Path) -> subprocess.Popen[bytes]:
    """Start the guard in its own process group.

    It starts with these signals blocked: until it is in its group and ignores them, a terminal's signal would end it.
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
