"""An object store in memory. It counts its requests, and one of them can fail."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

import obstore
import pyarrow.parquet as pq
from obstore.store import MemoryStore

from sarameya_handlers.landing.stores.clients import Access
from sarameya_handlers.landing.stores.objects import ObjectStore
from sarameya_handlers.landing.stores.usage import Operation


class Bucket(ObjectStore):
    """Objects in memory. Request `fails_at` fails: before it takes effect or, with `fails_after`, after that."""

    def __init__(self, client: MemoryStore | None = None) -> None:
        super().__init__("memory://lake/orders", Access(client or MemoryStore()))
        self.requests = 0
        self.fails_at = 0
        self.fails_after = False

    @contextmanager
    def _request(self, operation: Operation, name: str, count: int = 1, *, sent: int = 0) -> Iterator[None]:
        self.requests += 1
        fails = self.requests == self.fails_at
        if fails and not self.fails_after:
            raise OSError(errno.EIO, "no response", name)
        with super()._request(operation, name, count, sent=sent):
            yield
        if fails:
            raise OSError(errno.EIO, "no response", name)

    def visible(self) -> list[str]:
        return sorted(name for name in self.names("") if not name.startswith("_sarameya/"))

    def hidden(self) -> list[str]:
        return [name for name in self.names("_sarameya") if name.endswith(".parquet")]

    def plain_offsets(self) -> list[int]:
        """Return the offsets that a reader of the plain prefix sees."""
        found = [bytes(obstore.get(self._client, name).bytes()) for name in self.visible()]
        return sorted(n for content in found for n in pq.read_table(BytesIO(content))["offset"].to_pylist())
