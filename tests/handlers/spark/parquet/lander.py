"""Landings in a Parquet directory without Spark, one after the other, while somebody reads it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sarameya_handlers import ParquetTable
from sarameya_handlers.landing.directory.compaction import compact
from sarameya_handlers.landing.links import ChainKey
from tests.handlers.audit.fake_table import links_of
from tests.handlers.audit.kit import land

KEY = ChainKey("sarameya", "orders", 0)


class Lander:
    """Lands links in a thread, with what landings leave behind on their way."""

    def __init__(self, root: Path) -> None:
        self.table = ParquetTable(root)
        self.table.open(None)
        self.landed = 0
        """Offsets below this are in the directory."""
        self._is_over = threading.Event()
        self._is_wanted = threading.Event()

    def compact_soon(self) -> None:
        """Start a compaction right after the next batch."""
        self._is_wanted.set()

    def land(self) -> None:
        links = links_of(KEY, *range(3, self.landed + 6, 3))
        land(self.table, links[-1])
        self.landed += 3
        file = next(self.table.path.glob("part-*.parquet"))
        loser = self.table.path / "_sarameya" / "landing" / f"loser-{self.landed}"
        loser.mkdir()
        shutil.copy(file, loser)

    @contextmanager
    def landing(self) -> Iterator[None]:
        def work() -> None:
            while not self._is_over.is_set():
                self.land()
                if self._is_wanted.is_set():
                    self._is_wanted.clear()
                    with suppress(FileNotFoundError):
                        compact(self.table.path, 10**6)

        thread = threading.Thread(target=work)
        self.land()
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()
