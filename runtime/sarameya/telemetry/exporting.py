"""Tells the log that something is not exported, and that it is again: once each, however often it is tried."""

from __future__ import annotations

import logging

logger = logging.getLogger("sarameya")


class Exporting:
    """Of `what`, in the plural."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._failures = 0

    def failed(self, why: str) -> None:
        """A try has."""
        if not self._failures:
            logger.warning("%s are not exported, and it is tried on: %s", self._what, why)
        self._failures += 1

    def worked(self) -> None:
        """A try has."""
        if self._failures:
            logger.info("%s are exported again, after %d tries that failed", self._what, self._failures)
        self._failures = 0
