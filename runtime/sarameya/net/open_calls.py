"""Calls that wait for an answer, and would wait for ever once whoever gives it is closed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio


class OpenCalls:
    """All that wait; `closed` is what they are told when they are ended."""

    def __init__(self, closed: str) -> None:
        self._closed = closed
        self._scopes: set[trio.CancelScope] = set()

    @contextmanager
    def call(self) -> Iterator[None]:
        """For one that waits inside. Raises RuntimeError if all is closed meanwhile."""
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)
        if scope.cancelled_caught:
            raise RuntimeError(self._closed)

    def close(self) -> None:
        """End those that wait now."""
        for scope in self._scopes:
            scope.cancel()
