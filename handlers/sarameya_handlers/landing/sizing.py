"""The number of bytes to collect for data files of a wanted size. Pure.

Records take fewer bytes in a table's files than in memory. The ratio depends on compression and on the transform. Each
flush measures the ratio again.
"""

from __future__ import annotations

import attrs

_WEIGHT = 0.25
"""Weight of the newest flush in the moving average of the ratio."""
_MAX_MULTIPLE = 16.0
"""Upper bound of the bytes to collect, in multiples of `max_bytes`: one odd flush must not exhaust the memory."""


@attrs.define(slots=True)
class Sizing:
    """Bytes to collect for one flush: `max_bytes` without a target, and before the first flush."""

    max_bytes: int
    target: int | None = None
    """Wanted size of a file, as the table stores it."""
    _ratio: float = 0.0
    """Moving average of bytes in files per byte in memory."""

    def add_flush(self, collected: int, stored: int) -> None:
        """Update the ratio by a flush of `collected` bytes in memory and `stored` in files. Ignore an empty flush."""
        if collected <= 0 or stored <= 0:
            return
        ratio = stored / collected
        self._ratio = ratio if not self._ratio else self._ratio + _WEIGHT * (ratio - self._ratio)

    @property
    def bytes(self) -> int:
        """Bytes of records in memory to collect for one flush."""
        if self.target is None or not self._ratio:
            return self.max_bytes
        return int(min(max(self.target / self._ratio, 1), _MAX_MULTIPLE * self.max_bytes))
