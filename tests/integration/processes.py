"""What processes there are (Linux)."""

from __future__ import annotations

import os
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether the process is there and no zombie that nobody has waited for."""
    try:
        return _stat(pid)[0] != "Z"
    except FileNotFoundError:
        return False


def children(name: str, of: int | None = None) -> list[int]:
    """The ids of the processes called `name`, zombies included, that process `of` (default: this one) has started."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            pid = int(directory.name)
            if int(_stat(pid)[1]) == (of or os.getpid()) and (directory / "comm").read_text().strip() == name:
                found.append(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return sorted(found)


def marked(mark: str) -> list[str]:
    """The command lines of those that have `mark` in their environment, as all have that one with it starts."""
    return [
        (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and mark.encode() in _environment(entry)
    ]


def _environment(entry: Path) -> bytes:
    try:
        return (entry / "environ").read_bytes()
    except OSError:  # it has just ended
        return b""


def _stat(pid: int) -> list[str]:
    """The fields behind the program's name: the state, the parent ..."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
