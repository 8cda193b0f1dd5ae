"""How much to collect so that files come out as large as they should. Pure.

What records take in memory and what they take in a table's files differ by a factor (compression, a transform that
drops columns) that each landing shows anew.
"""

from __future__ import annotations

import attrs

_WEIGHT = 0.25
"""Of the newest landing in the factor that is believed."""
_WIDEST = 16.0
"""Times `max_bytes` at most that a target may ask for: memory is not to follow one odd landing."""


@attrs.define(slots=True)
class Sizing:
    """Bytes to collect. Without a `target`, or before the first landing, `max_bytes`."""

    max_bytes: int
    target: int | None = None
    """Bytes of a file, as the table stores it."""
    _ratio: float = 0.0
    """Bytes in files by bytes in memory, of late."""

    def landed(self, collected: int, stored: int) -> None:
        """So many bytes in memory have become so many in files; nothing is learnt from an empty landing."""
        if collected <= 0 or stored <= 0:
            return
        ratio = stored / collected
        self._ratio = ratio if not self._ratio else self._ratio + _WEIGHT * (ratio - self._ratio)

    @property
    def bytes(self) -> int:
        """How many bytes of records in memory make a landing."""
        if self.target is None or not self._ratio:
            return self.max_bytes
        return int(min(max(self.target / self._ratio, 1), _WIDEST * self.max_bytes))
