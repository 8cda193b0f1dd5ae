"""Small disks of the run's own, which can be filled and made read-only: tmpfs mounts in a mount namespace of the run.

`enter` re-executes the program in that namespace, where /tmp is the run's own, too: what is left there is left by the
run. The mounts end with the last process of the run. Where the machine allows no namespace, the run goes on in plain
directories, and what needs a disk of its own is skipped with a line that says so.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import trio

_INSIDE = "CHAOS_NAMESPACE"
_BALLAST = ".ballast"
_PAGE = 4096
_CHUNK = 16 * 2**20
"""Taken at once: what does not fit is given back page by page, which takes long of a whole disk."""
_TICK_SECONDS = 0.05
_TMP = 'mount -t tmpfs -o size=1g,mode=1777 tmpfs /tmp && exec "$@"'


def enter(argv: Sequence[str]) -> None:
    """Replace this process by the same program in a namespace of its own, unless it is in one; return if it cannot."""
    if _INSIDE in os.environ:
        return
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    unshare = ["unshare", *user, "--mount", "--", "sh", "-c", _TMP, "sh"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        print("skipped: full and read-only disks, a /tmp of its own: no mount namespace (root, or user namespaces)")
        return
    os.execvpe("unshare", [*unshare, sys.executable, *argv], {**os.environ, _INSIDE: "1"})


@attrs.frozen
class Disk:
    """A file system at `path`."""

    path: Path

    @classmethod
    def mount(cls, path: Path, megabytes: int) -> Disk:
        """Mount a tmpfs where the run may, else make a directory."""
        path.mkdir(parents=True)
        if _INSIDE in os.environ:
            _mount("-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path))
        return cls(path)

    @property
    def is_own(self) -> bool:
        """Return whether the path is the root of a file system of its own."""
        return self.path.is_mount()

    async def stay_full(self, seconds: float) -> None:
        """Leave no free page for so long, whatever others remove meanwhile."""
        ballast = self.path / _BALLAST
        end = trio.current_time() + seconds
        try:
            with ballast.open("wb") as file:
                while trio.current_time() < end:
                    await trio.to_thread.run_sync(self._take_all, file.fileno())
                    await trio.sleep(_TICK_SECONDS)
        finally:
            ballast.unlink(missing_ok=True)

    async def stay_read_only(self, seconds: float) -> None:
        """Refuse whatever would change a file by its path for so long; what is open already stays writable.

        A remount of the disk itself would be refused as long as anybody has a file open for writing, as leases are.
        """
        _mount("--bind", str(self.path), str(self.path))
        try:
            _mount("-o", "remount,bind,ro", str(self.path))
            await trio.sleep(seconds)
        finally:
            _unmount(self.path)

    def _take_all(self, descriptor: int) -> None:
        chunk = _CHUNK
        while chunk >= _PAGE:
            try:
                os.posix_fallocate(descriptor, os.fstat(descriptor).st_size, chunk)
            except OSError:  # not so much at once: in ever smaller pieces
                chunk //= 4


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _unmount(path: Path) -> None:
    # Whoever has come to stand in it does not keep it.
    subprocess.run(["umount", "--lazy", str(path)], check=True)
