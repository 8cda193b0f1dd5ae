"""Pending calls of an object, which end with an error when the object is closed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio


class OpenCalls:
    """Pending calls of one object.

    Args:
        closed: Message of the RuntimeError that ends them.
    """

    def __init__(self, closed: str) -> None:
        self._closed = closed
        self._scopes: set[trio.CancelScope] = set()

    @contextmanager
    def call(self) -> Iterator[None]:
        """Run a block that waits. Cancel it, and raise RuntimeError, if `close` is called meanwhile."""
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)
        if scope.cancelled_caught:
            raise RuntimeError(self._closed)

    def close(self) -> None:
        """End all pending calls."""
        for scope in self._scopes:
            scope.cancel()
