"""Counts of the requests to an object store, and of the bytes that they sent and received."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import Literal

from sarameya import StoreUsed

Operation = Literal["put", "copy", "get", "head", "list", "delete"]
"""Kind of a request. Stores charge them differently: puts, copies and lists cost about ten times a read."""


class Usage:
    """Counter of requests. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[str] = Counter()
        self._sent = self._received = 0

    def add(self, operation: Operation, count: int = 1, *, sent: int = 0) -> None:
        """Count requests of one kind, and the bytes that they send."""
        with self._lock:
            self._requests[operation] += count
            self._sent += sent

    def receive(self, size: int) -> None:
        """Count the bytes of an object that was read."""
        with self._lock:
            self._received += size

    def take(self, table: str) -> StoreUsed | None:
        """Return what was counted since the last call, for this table; None if there were no requests."""
        with self._lock:
            if not self._requests:
                return None
            used = StoreUsed(
                table=table,
                requests=dict(self._requests),
                sent_bytes=self._sent,
                received_bytes=self._received,
            )
            self._requests.clear()
            self._sent = self._received = 0
            return used
