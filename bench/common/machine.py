"""What a table is worth without: the machine that it was measured on, and when."""

from __future__ import annotations

import os
import platform
import time

import attrs


@attrs.frozen
class Machine:
    processors: int
    memory_bytes: int
    system: str
    python: str
    date: str
    """Local, to the minute."""

    @classmethod
    def here(cls) -> Machine:
        return cls(
            processors=os.cpu_count() or 0,
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            system=f"{platform.system()} {platform.release()}",
            python=platform.python_version(),
            date=time.strftime("%Y-%m-%d %H:%M"),
        )

    def __str__(self) -> str:
        memory = f"{self.memory_bytes / 2**30:.0f} GiB"
        return f"{self.date}, {self.processors} processors, {memory}, {self.system}, Python {self.python}"


def load() -> float:
    """The machine's load average over the last minute: what else ran there, and the bench itself."""
    return os.getloadavg()[0]
