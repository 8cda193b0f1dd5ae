"""A writer without Spark that lands in a Parquet directory, link by link, while a test reads it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sarameya_handlers import ParquetTable
from sarameya_handlers.landing.directory.compaction import compact
from sarameya_handlers.landing.links import ChainKey
from tests.handlers.audit.fake_table import links_of
from tests.handlers.audit.kit import land

KEY = ChainKey("sarameya", "orders", 0)


class Lander:
    """Lands links in a thread. After each landing it adds the directory of an attempt that lost."""

    def __init__(self, table: ParquetTable) -> None:
        self.table = table
        self.table.open(None)  # type: ignore[arg-type]
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
        store = self.table.store
        file = next(name for name in store.entries("") if name.endswith(".parquet"))
        if (content := store.get(file)) is not None:  # otherwise it is being compacted
            store.put_if_absent(f"_sarameya/landing/loser-{self.landed}/{file}", content)

    @contextmanager
    def landing(self) -> Iterator[None]:
        """Land links in a thread until the block ends."""

        def work() -> None:
            while not self._must_stop.is_set():
                self.land()
                if self._must_compact.is_set():
                    self._must_compact.clear()
                    with suppress(FileNotFoundError):
                        compact(self.table.store, 10**6)

        thread = threading.Thread(target=work)
        self.land()
        thread.start()
        try:
            yield
        finally:
            self._must_stop.set()
            thread.join()
