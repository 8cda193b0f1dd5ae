"""Log lines about a failing export and its recovery: one line each, even if the export fails many times."""

from __future__ import annotations

import logging

logger = logging.getLogger("sarameya")


class ExportLog:
    """Log of one kind of exports. `what` is a plural noun, such as "metrics"."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._failures = 0

    def failed(self, why: str) -> None:
        """Record a failed attempt."""
        if not self._failures:
            logger.warning("%s are not exported, retrying: %s", self._what, why)
        self._failures += 1

    def worked(self) -> None:
        """Record a successful attempt."""
        if self._failures:
            logger.info("%s are exported again, after %d failed attempts", self._what, self._failures)
        self._failures = 0
