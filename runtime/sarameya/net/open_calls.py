"""Pending calls that would wait for ever after the object that answers them is closed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio


class OpenCalls:
    """Pending calls. `closed` is the message of the error that ends them."""

    def __init__(self, closed: str) -> None:
        self._closed = closed
        self._scopes: set[trio.CancelScope] = set()

    @contextmanager
    def call(self) -> Iterator[None]:
        """Run a block that waits. Raises RuntimeError if `close` is called meanwhile."""
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
