"""A writer without Spark that lands in a Parquet directory, link by link, while a test reads it."""

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
    """Lands links in a thread. After each landing it adds the directory of an attempt that lost."""

    def __init__(self, root: Path) -> None:
        self.table = ParquetTable(root)
        self.table.open(None)
        self.landed = 0
        """Offsets below this are in the directory."""
        self._must_stop = threading.Event()
        self._must_compact = threading.Event()

    def compact_soon(self) -> None:
        """Start a compaction right after the next batch."""
        self._must_compact.set()

    def land(self) -> None:
        """Land a link of three records."""
        links = links_of(KEY, *range(3, self.landed + 6, 3))
        land(self.table, links[-1])
        self.landed += 3
        file = next(self.table.path.glob("part-*.parquet"))
        loser = self.table.path / "_sarameya" / "landing" / f"loser-{self.landed}"
        loser.mkdir()
        shutil.copy(file, loser)

    @contextmanager
    def landing(self) -> Iterator[None]:
        """Land links in a thread until the block ends."""

        def work() -> None:
            while not self._must_stop.is_set():
                self.land()
                if self._must_compact.is_set():
                    self._must_compact.clear()
                    with suppress(FileNotFoundError):
                        compact(self.table.path, 10**6)

        thread = threading.Thread(target=work)
        self.land()
        thread.start()
        try:
            yield
        finally:
            self._must_stop.set()
            thread.join()
