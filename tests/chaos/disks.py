"""Small disks that a run can fill and make read-only: tmpfs mounts in a mount namespace of the run.

`enter` re-executes the program in that namespace, which has its own /tmp, too: all files that remain there come from
the run. The mounts end with the last process of the run. Where the machine allows no namespace, the run uses plain
directories, prints so, and skips the faults that need such disks.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
import trio

_NAMESPACE_VARIABLE = "CHAOS_NAMESPACE"
_BALLAST = ".ballast"
_PAGE = 4096
_CHUNK = 16 * 2**20
"""Bytes to allocate at once. An allocation that fails is freed page by page, which takes long for a whole disk."""
_TICK_SECONDS = 0.05
_MOUNT_TMP = 'mount -t tmpfs -o size=1g,mode=1777 tmpfs /tmp && exec "$@"'


def enter(argv: Sequence[str]) -> None:
    """Replace this process by the same program in a new namespace. Return if it runs in one, or cannot create one."""
    if _NAMESPACE_VARIABLE in os.environ:
        return
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    unshare = ["unshare", *user, "--mount", "--", "sh", "-c", _MOUNT_TMP, "sh"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        print("skipped: full and read-only disks, a /tmp of its own: no mount namespace (root, or user namespaces)")
        return
    os.execvpe("unshare", [*unshare, sys.executable, *argv], {**os.environ, _NAMESPACE_VARIABLE: "1"})


@attrs.define(eq=False)
class Disk:
    """A file system at `path`."""

    path: Path
    _faults: int = attrs.field(default=0, init=False)
    """Number of faults of the disk now."""
    _faulty_until: float = attrs.field(default=-math.inf, init=False)
    """Time at which the last fault ended, on trio's clock."""

    @classmethod
    def mount(cls, path: Path, megabytes: int) -> Disk:
        """Mount a tmpfs in the namespace of the run; without a namespace, only create the directory."""
        path.mkdir(parents=True)
        if _NAMESPACE_VARIABLE in os.environ:
            _mount("-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path))
        return cls(path)

    @property
    def is_own(self) -> bool:
        """Return whether the path is a mount point, not a plain directory."""
        return self.path.is_mount()

    def was_faulty_since(self, time: float) -> bool:
        """Return whether the disk is full or read-only, or was so after this time on trio's clock."""
        return self._faults > 0 or self._faulty_until >= time

    @contextmanager
    def _faulty(self) -> Iterator[None]:
        self._faults += 1
        try:
            yield
        finally:
            self._faults -= 1
            self._faulty_until = trio.current_time()

    async def stay_full(self, seconds: float) -> None:
        """Keep the disk full for this time, even while other processes remove files."""
        ballast = self.path / _BALLAST
        end = trio.current_time() + seconds
        try:
            with self._faulty(), ballast.open("wb") as file:
                while trio.current_time() < end:
                    await trio.to_thread.run_sync(self._fill, file.fileno())
                    await trio.sleep(_TICK_SECONDS)
        finally:
            ballast.unlink(missing_ok=True)

    async def stay_read_only(self, seconds: float) -> None:
        """Make the path read-only for this time. Files that are already open stay writable.

        A remount of the disk itself would fail while a process has a file open for writing, as it has for leases.
        """
        _mount("--bind", str(self.path), str(self.path))
        try:
            with self._faulty():
                _mount("-o", "remount,bind,ro", str(self.path))
                await trio.sleep(seconds)
        finally:
            _unmount(self.path)

    def _fill(self, descriptor: int) -> None:
        chunk = _CHUNK
        while chunk >= _PAGE:
            try:
                os.posix_fallocate(descriptor, os.fstat(descriptor).st_size, chunk)
            except OSError:  # too little space for this size: try a smaller one
                chunk //= 4


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _unmount(path: Path) -> None:
    # Lazy: a process whose working directory is on the mount would keep it busy.
    subprocess.run(["umount", "--lazy", str(path)], check=True)
